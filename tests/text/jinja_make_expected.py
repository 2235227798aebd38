#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes jinja_expected.json: what jinja2 renders for many small templates.

    python3 -m venv v && v/bin/pip install jinja2==3.1.6
    v/bin/python jinja_make_expected.py > jinja_expected.json

Two kinds of cases: the list below, feature by feature, and random templates from a grammar (fixed
seed). `--random N --seed S` writes other random cases, for a wider comparison by hand.
"""
import argparse
import copy
import datetime
import json
import random
import re

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from jinja_random_templates import RandomTemplates

CONTEXT = {
    "s": "Hello World", "u": "ünïcode ß", "n": None, "i": 42, "f": 3.25, "l": [3, 1, 2],
    "d": {"a": 1, "b": "two", "items": 5, "C": [1]}, "t": "tail\n", "e": "",
    "nested": {"x": {"y": [{"z": 1}, {"z": 2}]}}, "b": True, "empty": [],
    "msgs": [{"role": "user", "content": "hi", "n": 2},
             {"role": "assistant", "content": None, "n": 1},
             {"role": "User", "content": "yo <x>", "n": 3}],
}

LISTED = """
whitespace
A\\n  {# c #}\\nB | text {#- c -#} \\n more
{% if b %}\\n  x\\n{% endif %}\\ny
  {%+ if b %}x{% endif +%}\\ny
\\t{% if b %}\\n\\tx\\n\\t{% endif %}\\n
a  {{- s -}}  b | a {{ s }} b\\n{{ s }}\\nend
{% for x in l -%}\\n  {{ x }},\\n{%- endfor %}
{% for x in l %}\\n  {{ x }}\\n{% endfor %}
x{% raw %}\\n {{ a }} {# b #} {% c %}\\n{% endraw %}\\ny
x {%- raw -%} {{ a }} {%- endraw -%} y
a\\r\\nb\\rc\\n
 {#+ keep #} {# drop #}\\n x
{{ '{{' }} }} {{ "%}" }} {% if b %}{ {% endif %}
{{ s }}{# a #}{{ s }}\\n{# b #}\\n{# c #}\\n
\\u00a0{%- if b %}x{% endif %}\\u3000{%- if b %}y{% endif %}
{%if b%}x{%endif%}{{s}}
{% if b %}a{% endif %} b\\n\\n c {% if b %}\\n\\nd{% endif %}

literals
{{ 1 }} {{ 1_000 }} {{ 0x1F }} {{ 0o17 }} {{ 0b101 }} {{ 1.5 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 12345678901234567890 }}
{{ 1e22 }} {{ 1e16 }} {{ 123456789.123456789 }} {{ 0.1 + 0.2 }} {{ 1e15 }} {{ 1e-4 }} {{ 1e-5 }} {{ -0.0 }}
{{ true }} {{ false }} {{ none }} {{ True }} {{ False }} {{ None }}
{{ 'a\\\\nb\\\\t\\\\x41\\\\u00e9\\\\'' }} {{ "q\\\\"q" }} {{ 'a' "b" 'c' }} {{ '\\\\101\\\\q' }}
{{ [] }} {{ [1, 'a', none] }} {{ [1,] }} {{ () }} {{ (1,) }} {{ (1, 2) }} {{ {} }} {{ {'a': 1, 2: [3], none: true} }}
{{ {'a': 1, 'a': 2} }} {{ {1: 'x', 1.0: 'y', true: 'z'} }} {{ ['it\\\\'s', "q\\\\"", 'both\\\\'\\\\"', 'é\\\\n\\\\x00\\\\u200b'] }}
{{ 1, 2 }}

operators
{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}
{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 / 3 }} {{ 10 / 5 }} {{ true + 1 }} {{ 2 * 'ab' }} {{ [1] * 3 }} {{ 'ab' * -1 }} {{ (1, 2) + (3,) }} {{ [1] + [2] }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1] ~ x }} {{ 'a' + 'b' ~ 'c' + 'd' }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ none == none }} {{ x == y }} {{ x == none }} {{ 'a' == 1 }} {{ (1,) == [1] }}
{{ 'ell' in s }} {{ 2 in l }} {{ 'a' in d }} {{ 'z' not in d }} {{ not 'z' in d }} {{ 'x' in 'y' == false }} {{ 1 in (1, 2) }} {{ '' in 'a' }} {{ x in l }}
{{ not true and false }} {{ 1 or 2 }} {{ 0 or '' }} {{ 1 and [] }} {{ none or 'x' }} {{ not not 1 }} {{ not x }} {{ 1 if false }} {{ 1 if b else 2 }} {{ 1 if n else 2 if e else 3 }}
{{ not x is defined }} {{ x is not defined and b }} {{ 1 | string ~ 'x' }} {{ 'a' ~ 'b' | upper }} {{ -1 | abs }} {{ -l[0] }} {{ - 1 + +2 }}
{{ s + 1 }}
{{ 1 + s }}
{{ l + s }}
{{ n + 1 }}
{{ x + 1 }}
{{ 1 + x }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ 1 in 2 }}
{{ 1 in 'abc' }}
{{ [] in d }}
{{ {[]: 1} }}
{{ -s }}
{{ s * s }}
{{ s - s }}
{{ d < d }}

lookup
{{ d.a }} {{ d['b'] }} {{ d['items'] }} {{ d.C[0] }} {{ d.get('q') }} {{ d.get('q', 'fb') }} {{ d.q is defined }} {{ d['q'] }}|{{ nested.x.y[1].z }} {{ nested['x'].y.0.z }}
{{ l[0] }} {{ l[-1] }} {{ l[9] }}| {{ l[1:] }} {{ l[:1] }} {{ l[::-1] }} {{ l[-2:] }} {{ l[::2] }} {{ l[5:] }} {{ l[-9:9] }} {{ (1, 2, 3)[1:] }}
{{ s[0] }} {{ s[-1] }} {{ s[99] }}| {{ s[1:4] }} {{ s[::-1] }} {{ u[0] }} {{ u[2:5] }} {{ u[::2] }} {{ u[::-1] }} {{ s[:-1] }} {{ s[3:1:-1] }}
{{ s.missing }}|{{ n.missing }}|{{ i.missing }}|{{ l.missing }}|{{ i[0] }}|{{ n['a'] }}|{{ l['a'] }}
{{ x.y }}
{{ x['y'] }}
{{ d.q.r }}
{{ l[9].a }}
{{ n.a.b }}
{{ x() }}
{{ s() }}
{{ d.a() }}
{{ l[none] }}|{{ l['1'] }}|{{ d[1] }}
{{ l[::0] }}
{{ l['a':] }}
{{ s.__class__ }}|
{{ s.__class__.x }}
{{ l.append }}|
{{ l.append(1) }}
{{ d.update({}) }}
{{ d['get']('a') }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.items()|list }} {{ d.keys() }} {{ d.items() }} {{ range(3) }} {{ range(1, 9, 3) }} {{ range(5)[1:3] }}

statements
{% set a = 1 %}{% for i in [1, 2] %}{% set a = i %}{{ a }}{% endfor %}{{ a }}{% if b %}{% set a = 9 %}{% endif %}{{ a }}
{% set ns = namespace(a=1, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}{{ ns }}
{% set a, c = 1, 2 %}{{ a }}{{ c }}{% set q = 1, 2 %}{{ q }}{% set (x, y) = [3, 4] %}{{ x }}{{ y }}
{% set q %}  hi {{ 1 + 1 }}\\n{% endset %}[{{ q }}]{% set q | upper | trim %} abc {% endset %}[{{ q }}]
{% set d.a = 1 %}
{% set zz.a = 1 %}
{% set a, c = [1] %}
{% set a, c = [1, 2, 3] %}
{% set a, c = 1 %}
{% if l and not empty %}A{% elif x %}B{% else %}C{% endif %}{% if 0 %}A{% elif '' %}B{% elif [0] %}C{% endif %}{% if 0 %}x{% endif %}
{% for x in empty %}x{% else %}E{% endfor %}{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for x in d %}{{ x }}{% endfor %}{% for c in u %}[{{ c }}]{% endfor %}
{% for x in l if x != 1 %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }};{% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.cycle('o', 'e') }} {{ loop.changed(x > 1) }} {{ loop.depth }}{{ loop }}\\n{% endfor %}
{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% else %}E{% endfor %}
{% for a in [1, 2] %}{% for c in [3, 4] %}{{ loop.index }}{{ a }}{{ c }}{% endfor %}{{ loop.index }}{% endfor %}{{ loop is defined }}
{% for x in n %}x{% endfor %}
{% for x in 5 %}x{% endfor %}
{% for x in x %}x{% else %}E{% endfor %}{% for a, c in [(1, 2), [3, 4], 'xy'] %}{{ a }}{{ c }}{% endfor %}
{% for x in l recursive %}{{ x }}{% if loop.depth < 3 %}({{ loop([x, x + 1]) }}){% endif %}{% endfor %}
{% for x in l %}{{ loop([1]) }}{% endfor %}
{% for m in msgs|selectattr('content') %}{{ m.role }}{{ loop.last }}{% endfor %}{% for k, g in msgs|groupby('role') %}{{ k }}{{ g|length }}{% endfor %}
{% macro m(a, b='z', c=a) %}[{{ a }}{{ b }}{{ c }}{{ caller is defined }}]{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}{{ m(c=3, a=4) }}{{ m() }}{{ m.name }}{{ m.arguments }}{{ m }}
{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}{{ m() }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(q=2) }}
{% macro m(a) %}<{{ caller(a, 2) }}|{{ caller() }}>{% endmacro %}{% call(x, y=5) m('A') %}{{ x }}{{ y }}{{ s }}{% endcall %}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% set g = 1 %}{% macro m() %}{{ g }}{{ l }}{% endmacro %}{% set g = 2 %}{{ m() }}{% for g in [7] %}{{ m() }}{% endfor %}
{% macro outer(x) %}{% macro inner() %}{{ x }}{% endmacro %}{{ inner() }}{{ inner() }}{% endmacro %}{{ outer(5) }}{{ inner is defined }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% filter upper|trim %} a{{ s }} {% endfilter %}{% with a = 1, c = s %}{{ a }}{{ c }}{% endwith %}{{ a is defined }}
{% generation %}a{{ s }}{% set zz = 1 %}{% endgeneration %}{{ zz is defined }}
{% print s %}{{ raise_exception('stop: ' ~ i) }}
{{ strftime_now('%d %b %Y') }}|{{ strftime_now('%Y-%m-%d %H:%M') }}|{{ strftime_now('%A, %B %-d') }}

filters
{{ 'aBc dE'|upper }}{{ 'ÀÉ'|lower }}{{ 'straße'|upper }}{{ 'hELLO wORLD'|capitalize }}{{ "it's a-b (c) ünder"|title }}{{ ' x '|trim }}|{{ 'xxaxx'|trim('x') }}
{{ l|length }}{{ s|length }}{{ u|length }}{{ d|length }}{{ x|length }}{{ l|count }}{{ l|first }}{{ l|last }}{{ s|first }}{{ empty|first }}{{ d|first }}|{{ l|sum }}{{ l|min }}{{ l|max }}
{{ 5|length }}
{{ n|first }}
{{ l|join }} {{ l|join(', ') }} {{ msgs|join(',', attribute='role') }} {{ [1, none, x, 'a']|join('-') }} {{ 'abc'|join('.') }} {{ d|join(',') }}
{{ l|sort }} {{ ['b', 'A', 'c']|sort }} {{ ['b', 'A', 'c']|sort(case_sensitive=true) }} {{ l|sort(reverse=true) }} {{ msgs|sort(attribute='n')|map(attribute='n')|list }} {{ msgs|sort(attribute='role,n')|map(attribute='n')|list }}
{{ [1, 'a']|sort }}
{{ d|dictsort }} {{ {'b': 1, 'A': 2}|dictsort(true) }} {{ {'b': 1, 'A': 2}|dictsort(by='value', reverse=true) }} {{ d|items|list }} {{ x|items|list }}
{{ l|items|list }}
{{ l|list }} {{ 'abc'|list }} {{ d|list }} {{ l|reverse|list }} {{ 'abc'|reverse }} {{ ['a', 'b', 'A', 'a']|unique|list }} {{ l|batch(2)|list }} {{ l|batch(2, 0)|list }} {{ range(7)|slice(3)|list }} {{ range(7)|slice(3, 'x')|list }}
{{ msgs|map(attribute='role')|list }} {{ msgs|map(attribute='q', default='Q')|list }} {{ ['a', 'b']|map('upper')|join }} {{ [1.5, '2']|map('int')|list }} {{ nested|map('length')|list }} {{ [{'a': {'b': 1}}]|map(attribute='a.b')|list }} {{ [[1, 2]]|map(attribute='0')|list }}
{{ range(6)|select('odd')|list }} {{ range(6)|select|list }} {{ range(6)|reject('divisibleby', 3)|list }} {{ msgs|selectattr('content')|map(attribute='n')|list }} {{ msgs|selectattr('role', 'equalto', 'user')|list|length }} {{ msgs|rejectattr('role', 'in', ['user', 'User'])|map(attribute='role')|list }} {{ msgs|selectattr('n', '>', 1)|map(attribute='n')|list }} {{ l|reject('equalto', 1)|join(', ') }}
{{ x|default('d') }}{{ e|default('d') }}|{{ e|default('d', true) }}{{ n|default('d') }}{{ n|d('d', boolean=true) }}{{ d.q|default(1) }}{{ false|default('d', true) }}
{{ '42'|int }}{{ '4.9'|int }}{{ 'x'|int }}{{ 'x'|int(7) }}{{ '0x1f'|int(base=16) }}{{ '101'|int(0, 2) }}{{ 3.99|int }}{{ none|int }}{{ true|int }}{{ ' 5 '|int }} {{ '1.5'|float }}{{ 'x'|float }}{{ 'x'|float(1.5) }}{{ 3|float }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.567|round(2) }} {{ 2.1|round(0, 'ceil') }} {{ 2.9|round(method='floor') }} {{ 42|round }} {{ 1234.5|round(-2) }} {{ 2.675|round(2) }} {{ -3|abs }} {{ -3.5|abs }}
{{ s|replace('l', 'L') }} {{ s|replace('l', 'L', 1) }} {{ 'aaa'|replace('aa', 'b') }} {{ 'ab'|replace('', '-') }} {{ 5|replace(5, 6) }} {{ s|string }} {{ i|string + 'x' }} {{ n|string }} {{ s|safe }} {{ '<a href="x">\\\\'&</a>'|e }} {{ ('<'|safe) + '<' }} {{ ('<'|safe) ~ '<' }}
{{ 'a\\\\nb\\\\n\\\\nc'|indent }}|{{ 'a\\\\nb'|indent(2, true) }}|{{ 'a\\\\n\\\\nb'|indent(2, blank=true) }}|{{ 'a\\\\nb'|indent('> ') }}
{{ d|tojson }} {{ 'é"\\\\n<&\\\\x7f'|tojson }} {{ 'é😀'|tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': [1, {}, []]}|tojson(indent=2) }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }} {{ [1, 2]|tojson(separators=(',', ':')) }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ (1, 2)|tojson }} {{ 1.0|tojson }} {{ none|tojson }} {{ true|tojson }} {{ [1e20, 1e-7]|tojson }} {{ {'a': [1]}|tojson(indent='--') }}
{{ x|tojson }}
{{ msgs|map(attribute='n')|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ '%s-%d'|format('a', 3) }} {{ '%05.1f|%-5s|%+d|%x|%r|%%' % (3.14159, 'ab', 5, 255, 'q') }} {{ '%s' % l }} {{ '%s %s' % (1, 2) }} {{ '%(a)s' % {'a': 1} }}
{{ '%d' % 'a' }}
{{ '%s %s' % (1,) }}
{{ '%s' % (1, 2) }}
{{ 'a b c'|wordcount }} {{ 'Hello world foo'|truncate(10) }} {{ 'Hello world foo'|truncate(10, true) }} {{ 'x'|center(5) }}| {{ 'a b/é?'|urlencode }} {{ {'a b': 'c&d'}|urlencode }} {{ msgs|sum(attribute='n') }} {{ d|attr('get') is callable }}
{{ s|nosuchfilter }}
{{ s is nosuchtest }}
{{ s|replace('a') }}
{{ s|upper(1) }}
{{ '[1, {"a": null}]'|from_json }}
{{ '{"a": 1e2, "b": "\\\\u00e9"}'|from_json }}

tests
{{ s is string }}{{ i is string }}{{ i is number }}{{ b is number }}{{ b is integer }}{{ i is integer }}{{ f is float }}{{ i is float }}{{ b is boolean }}{{ i is boolean }}{{ b is true }}{{ 1 is true }}{{ false is false }}{{ 0 is false }}{{ n is none }}{{ x is none }}
{{ d is mapping }}{{ l is mapping }}{{ l is sequence }}{{ s is sequence }}{{ d is sequence }}{{ i is sequence }}{{ l is iterable }}{{ s is iterable }}{{ d is iterable }}{{ i is iterable }}{{ n is iterable }}{{ d.items() is sequence }}{{ range(3) is sequence }}{{ l|map('string') is sequence }}{{ x is iterable }}{{ x is sequence }}
{{ x is defined }}{{ d.q is defined }}{{ d.a is defined }}{{ x is undefined }}{{ n is undefined }}{{ d.get is callable }}{{ s is callable }}{{ 3 is odd }}{{ -3 is odd }}{{ 4 is even }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}
{{ 1 is eq 1 }}{{ 1 is equalto(2) }}{{ 1 is ne 2 }}{{ 1 is lt 2 }}{{ 1 is ge(1) }}{{ 2 is in l }}{{ 'a' is in 'abc' }}{{ l is sameas l }}{{ 'abc' is lower }}{{ 'ABC' is upper }}{{ 'A1' is upper }}{{ '1' is upper }}{{ 'upper' is filter }}{{ 'nope' is filter }}{{ 'odd' is test }}{{ ('x'|safe) is escaped }}
{{ 'a' is odd }}
{{ l is divisibleby 0 }}

methods
{{ ' a b '.strip() }}|{{ ' a b '.lstrip() }}|{{ ' a b '.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ '\\\\n\\\\nq'.lstrip('\\\\n') }}|{{ 'abcba'.strip('ab') }}
{{ 'a,b,,c'.split(',') }} {{ 'a b  c'.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a</think>b'.split('</think>')[-1] }} {{ 'a.b.c'.rsplit('.', 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a\\\\nb\\\\r\\\\nc\\\\n'.splitlines() }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('z') }}
{{ s.startswith('He') }}{{ s.endswith('ld') }}{{ s.startswith(('x', 'H')) }}{{ s.find('o') }}{{ s.rfind('o') }}{{ s.find('z') }}{{ s.index('W') }}{{ s.count('l') }}{{ u.find('c') }}{{ s.startswith('lo', 3) }}{{ s.find('o', 5) }}
{{ s.index('z') }}
{{ s.startswith(1) }}
{{ ''.split('') }}
{{ s.upper() }}{{ s.lower() }}{{ "they're bill's".title() }}{{ 'aBC d'.capitalize() }}{{ 'aB'.swapcase() }}{{ s.replace('l', 'L', 2) }}{{ 'ab'.join(['1', '2', '3']) }}{{ 'x'.center(6, '*') }}{{ 'x'.ljust(3) }}|{{ 'x'.rjust(3, '0') }}{{ '-5'.zfill(4) }}{{ 'prefix-x'.removeprefix('prefix-') }}{{ 'x.txt'.removesuffix('.txt') }}
{{ '12'.isdigit() }}{{ 'a1'.isalnum() }}{{ 'ab'.isalpha() }}{{ 'AB'.isupper() }}{{ 'ab'.islower() }}{{ ' '.isspace() }}{{ ''.isdigit() }}{{ 'Ab Cd'.istitle() }}{{ 'é'.isalpha() }}
{{ '{} {}'.format(1, 'a') }} {{ '{0}{1}{0}'.format(1, 2) }} {{ '{a} {b[x]} {c.y}'.format(a=1, b={'x': 2}, c={'y': 3}) }} {{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}|{!r}'.format('a', 'b', 'c', 42, 3.14159, 1234567, 'q') }} {{ '{{}}'.format() }} {{ '{:x} {:#b} {:e} {:%}'.format(255, 5, 12345.678, 0.25) }}
{{ '{}'.format() }}
{{ '{a}'.format(1) }}
{{ ','.join([1]) }}
{{ l.index(1) }}{{ l.count(3) }}{{ (1, 2, 1).count(1) }}{{ d.copy() }}{{ dict(a=1, b=2) }}{{ dict([('a', 1)]) }}{{ dict(d, z=1).z }}{{ dict(d).get('a') }}{{ (2.0).is_integer() }}
{{ l.index(99) }}
{{ range(100001) }}
{{ range(0, 5, 0) }}
{{ range('a') }}
{{ [1, 2, 3]|map('nosuch')|list }}
{{ namespace({'a': 1}, b=2).a }}{{ namespace().a is defined }}

syntax errors
{{ 1 +
{% if %}x{% endif %}
{% if b %}x
{% for x %}{% endfor %}
{% endif %}
{% unknown %}
{{ (1 }}
{{ 1] }}
{{ a.  }}
{{ 'abc }}
{# never closed
{% raw %} never closed
{{ a b }}
{{ 1 = 2 }}
{% set 1 = 2 %}
{% set true = 2 %}
{% macro m(a=1, b) %}{% endmacro %}
{% break %}
{{ f(a=1, 2) }}
{{ x is string is none }}
{{ ? }}
{% call s %}{% endcall %}
"""


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


ENV = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                    extensions=[Generation, loopcontrols])
ENV.filters["tojson"] = tojson
ENV.filters["from_json"] = json.loads
ENV.globals["raise_exception"] = raise_exception
ENV.globals["strftime_now"] = lambda form: datetime.datetime(2026, 11, 30, 12, 0).strftime(form)


def render(template):
    try:
        return {"out": re.sub("0x7[0-9a-f]{9,}", "0xADDRESS", ENV.from_string(template).render(**copy.deepcopy(CONTEXT)))}
    except (jinja2.exceptions.TemplateSyntaxError, SyntaxError):
        return {"error": ""}
    except Exception as error:  # the class is compared, not Python's wording
        return {"error": "" if type(error) is jinja2.exceptions.TemplateError else type(error).__name__}


def listed_cases():
    group = None
    for line in LISTED.strip("\n").split("\n"):
        if not line:
            group = None
        elif group is None:
            group = line
        else:
            yield group, unescape(line)


def unescape(line):
    """The list writes \\\\ for a backslash, \\n \\r \\t and \\uHHHH for characters."""
    return re.sub(r"\\(u[0-9a-f]{4}|.)",
                  lambda m: {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}.get(m[1]) or chr(int(m[1][1:], 16)),
                  line)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--random", type=int, default=600)
    options.add_argument("--seed", type=int, default=1)
    options = options.parse_args()
    cases = [{"group": group, "template": template} for group, template in listed_cases()]
    source = RandomTemplates(random.Random(options.seed))
    while options.random > 0:
        template = source.next()
        if len(template) > 400:
            continue
        cases.append({"group": "random", "template": template})
        options.random -= 1
    for case in cases:
        case.update(render(case["template"]))
    print(json.dumps({"source": "jinja2 " + jinja2.__version__, "context": CONTEXT, "cases": cases},
                     ensure_ascii=False, indent=0))


if __name__ == "__main__":
    main()
