# SPDX-License-Identifier: Apache-2.0
"""Random Jinja templates over the context of jinja_make_expected.py: most render, some fail."""

STRINGS = ["''", "'a'", "'Ab c'", "'x,y,z'", "' pad '", "'é日本'", "\"it's\"", "'a\\nb\\n'", "'<b>&'",
           "'3'", "'4.5'", "'-7'", "'0x1f'", "'%s'", "'abcabc'", "'{} {}'", "'\\t\\u00a0x\\u3000'"]
NUMBERS = ["0", "1", "2", "3", "-1", "7", "10", "1.5", "2.0", "-0.5", "1e3", "1e16", "1e-5", "true",
           "false", "0.1", "123456789012"]
NAMES = ["s", "u", "n", "i", "f", "l", "d", "t", "none", "e", "nested", "msgs", "b", "empty"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "count", "first", "last", "list",
           "reverse", "join", "join(', ')", "string", "safe", "escape", "abs", "round", "round(1)",
           "round(2, 'floor')", "int", "int(5)", "float", "default('D')", "default('D', true)", "tojson",
           "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(sort_keys=true)", "sort",
           "sort(reverse=true)", "sort(attribute='n')", "unique|list", "min", "max", "sum",
           "map('upper')|list", "map(attribute='role')|list", "map(attribute='q', default='Q')|join(',')",
           "select|list", "reject|list", "select('string')|list", "selectattr('content')|list",
           "selectattr('role', 'equalto', 'user')|list", "rejectattr('content', 'none')|list",
           "reject('equalto', 1)|list", "dictsort", "dictsort(by='value')", "items|list",
           "replace('a', 'Z')", "replace('', '-')", "replace('b', 'XX', 1)", "indent", "indent(2, true)",
           "center(12)", "wordcount", "truncate(5)", "truncate(8, true)", "format('x', 2)",
           "batch(2)|list", "batch(2, 'f')|list", "slice(2)|list", "slice(2, 'F')|list",
           "groupby('role')|list", "attr('x')", "sum(attribute='n')", "trim('ac ')", "map('int')|list"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true",
         "false", "mapping", "sequence", "iterable", "callable", "odd", "even", "divisibleby(2)", "eq(1)",
         "equalto 'a'", "ne 2", "gt 1", "lt(5)", "in [1, 2, 'a']", "in 'abc'", "lower", "upper",
         "sameas none", "escaped", "in d"]
METHODS = [".upper()", ".lower()", ".strip()", ".lstrip('a ')", ".rstrip('\\n')", ".split()",
           ".split(',')", ".split('a', 1)", ".rsplit(' ', 1)", ".splitlines()", ".replace('a', 'b')",
           ".startswith('a')", ".endswith('\\n')", ".startswith(('H', 'a'))", ".find('b')", ".rfind('a')",
           ".count('a')", ".index('a')", ".join(['p', 'q'])", ".title()", ".swapcase()", ".isdigit()",
           ".isalpha()", ".isalnum()", ".isupper()", ".islower()", ".zfill(6)", ".center(9, '*')",
           ".ljust(6)", ".rjust(6, '.')", ".partition(',')", ".rpartition('a')", ".removeprefix('a')",
           ".items()", ".keys()", ".values()", ".items()|list", ".get('a')", ".get('zz', 7)", ".copy()",
           ".index(1)", ".format(1, 2)", ".a", ".b", ".items", ".x.y", ".zz", "['a']", "['zz']", "[0]",
           "[1]", "[-1]", "[9]", ".0", ".role", ".append(1)", ".pop()", ".update({'q': 1})"]
SLICES = ["[1:]", "[:2]", "[::-1]", "[-2:]", "[::2]", "[1:-1]", "[5:1:-1]"]
SLICEABLE = ["s", "u", "l", "msgs", "'abc'", "(1, 2, 3)", "range(6)", "t"]
PERCENT = ["'%s'", "'%d'", "'%5.2f|'", "'%-6s|'", "'%06d'", "'%x'", "'%r'", "'%s-%s'", "'%e'", "'%g'",
           "'%+d'", "'%%'", "'%c'", "'%.3s'"]
BRACES = ["'{}'", "'{0} {1}'", "'{:>8}|'", "'{:^9}|'", "'{:05d}'", "'{:.2f}'", "'{!r}'", "'{:,}'",
          "'{:x}'", "'{:%}'", "'{0[a]}'", "'{0.b}'", "'{:s}'"]
GLOBALS = ["range(3)", "range(1, 6, 2)", "range(3, 0, -1)", "dict(a=1, b=l)", "namespace(q=1)",
           "dict(d, z=9)"]
LOOPED = ["l", "msgs", "'abc'", "d", "range(4)", "[1, 2, 3, 4]", "empty", "msgs|map(attribute='n')", "u"]
LOOP_BODIES = ["{{ loop.index }}", "{{ loop.last }}", "{{ loop.first }}{{ loop.revindex }}",
               "{{ loop.length }}", "{{ loop.previtem }}|{{ loop.nextitem }}", "{{ loop.cycle('a', 'b') }}",
               "{{ loop.changed(x) }}", "{% if loop.index0 == 1 %}{% break %}{% endif %}",
               "{% if loop.first %}{% continue %}{% endif %}", "{{ x }}", "{% set v = x %}",
               "{% set ns.q = ns.q ~ x %}", "{{ loop }}", ""]
MACRO_USES = ["{{ m(1, c=3) }}", "{{ m() }}", "{% call m(1) %}cb{{ s }}{% endcall %}", "{{ m(1, 2, 3, 4) }}",
              "{{ m(z=1) }}", "{{ m }}"]
GAPS = ["", " ", "\n", "  \n", "\n  ", "\t", "x", "\n\n", " y\n"]


class RandomTemplates:
    def __init__(self, random):
        self.random = random

    def next(self):
        if self.random.random() < 0.6:
            return "{{ " + self.expression(self.random.choice([2, 3])) + " }}"
        blocks = "".join(self.block(2) for _ in range(self.random.randint(1, 3)))
        return "{% set ns = namespace(q=0) %}" + blocks + self.pick(["", "\n", "\r\n", "end"])

    def pick(self, choices):
        return self.random.choice(choices)

    def literal(self):
        return self.pick(self.pick([STRINGS, NUMBERS, NAMES]))

    def operand(self, depth):
        inner = self.expression(depth - 1)
        return inner if self.random.random() < 0.3 else "(" + inner + ")"

    def expression(self, depth):
        at = self.random.random()
        if depth <= 0 or at < 0.15:
            return self.literal()
        if at < 0.32:
            return self.operand(depth) + "|" + self.pick(FILTERS)
        if at < 0.48:
            return self.operand(depth) + self.pick(METHODS)
        if at < 0.52:
            return self.pick(SLICEABLE) + self.pick(SLICES)
        if at < 0.60:
            return "(" + self.operand(depth) + " is " + self.pick(["", "not "]) + self.pick(TESTS) + ")"
        if at < 0.72:
            operator = self.pick(["+", "-", "*", "/", "//", "%", "**", "~", "+", "~"])
            return self.operand(depth) + " " + operator + " " + self.operand(depth)
        if at < 0.79:
            operator = self.pick(["==", "!=", "<", "<=", ">", ">=", "in", "not in"])
            return self.operand(depth) + " " + operator + " " + self.operand(depth)
        if at < 0.83:
            return self.operand(depth) + self.pick([" and ", " or "]) + self.operand(depth)
        if at < 0.86:
            return self.pick(["not ", "-"]) + self.operand(depth)
        if at < 0.90:
            otherwise = self.pick(["", " else " + self.operand(depth)])
            return self.operand(depth) + " if " + self.operand(depth) + otherwise
        if at < 0.93:
            return "[" + ", ".join(self.expression(depth - 2) for _ in range(self.random.randint(0, 3))) + "]"
        if at < 0.95:
            return "(" + self.expression(depth - 2) + ", " + self.literal() + ")"
        if at < 0.97:
            return "{" + self.pick(STRINGS) + ": " + self.expression(depth - 2) + ", 1: 2}"
        if at < 0.98:
            return self.pick(PERCENT) + " % " + self.operand(depth)
        if at < 0.99:
            return self.pick(BRACES) + ".format(" + self.operand(depth) + ", " + self.literal() + ")"
        return self.pick(GLOBALS)

    def open(self):
        return self.pick(GAPS) + "{%" + self.pick(["", "", "-", "+"]) + " "

    def close(self):
        return " " + self.pick(["", "", "-", "+"]) + "%}"

    def end(self, name):
        return "{%" + self.pick(["", "-", "+"]) + " " + name + self.close()

    def body(self, depth):
        return "".join(self.block(depth) for _ in range(self.random.randint(0, 2))) + self.pick(["", "t", "\n"])

    def block(self, depth):
        kinds = [self.print, self.print, self.comment, self.set]
        if depth > 0:
            kinds += [self.branch, self.loop, self.loop, self.macro, self.set_block, self.with_block, self.raw]
        return self.pick(kinds)(depth - 1) + self.pick(GAPS)

    def print(self, depth):
        return (self.pick(GAPS) + "{{" + self.pick(["", "-"]) + " " + self.expression(2) + " " +
                self.pick(["", "-"]) + "}}")

    def comment(self, depth):
        return self.pick(GAPS) + "{#" + self.pick(["", "-", "+"]) + " c " + self.pick(["", "-", "+"]) + "#}"

    def set(self, depth):
        return self.open() + "set " + self.pick(["v", "w", "s", "ns.q"]) + " = " + self.expression(2) + self.close()

    def branch(self, depth):
        text = self.open() + "if " + self.expression(2) + self.close() + self.body(depth)
        if self.random.random() < 0.3:
            text += self.end("elif " + self.expression(1)) + self.body(depth)
        if self.random.random() < 0.4:
            text += self.end("else") + self.body(depth)
        return text + self.end("endif")

    def loop(self, depth):
        condition = self.pick(["", "", " if x", " if x != 2"])
        text = self.open() + "for x in " + self.pick(LOOPED) + condition + self.close()
        text += self.pick(LOOP_BODIES) + self.body(depth)
        if self.random.random() < 0.3:
            text += self.end("else") + "E"
        return text + self.end("endfor")

    def macro(self, depth):
        text = self.open() + "macro m(a, b=2, c=a)" + self.close() + self.body(depth) + "{{ a }}{{ b }}{{ c }}"
        text += self.pick(["{{ caller() }}", "{{ varargs }}{{ kwargs }}", ""]) + self.end("endmacro")
        return text + self.pick(MACRO_USES + ["{{ m(" + self.expression(1) + ") }}"])

    def set_block(self, depth):
        text = self.open() + "set v" + self.pick(["", " | upper", " | trim|length"]) + self.close()
        return text + self.body(depth) + self.end("endset") + "{{ v }}"

    def with_block(self, depth):
        text = self.open() + "with v = " + self.expression(1) + ", w = s" + self.close()
        return text + self.body(depth) + "{{ v }}" + self.end("endwith")

    def raw(self, depth):
        text = "{%" + self.pick(["", "-"]) + " raw " + self.pick(["", "-"]) + "%}" + self.pick(GAPS)
        return text + "{{ x }}{% y" + self.pick(GAPS) + self.end("endraw")
