taproot_test(jinja_test
    SOURCES jinja_expected_test.cc jinja_origin_test.cc jinja_limits_test.cc jinja_json_test.cc
            jinja_template_test.cc jinja_value_test.cc
    DEPENDS taproot_template LABELS unit)
taproot_test(chat_template_test
    SOURCES chat_template_test.cc chat_template_goldens_test.cc
    DEPENDS taproot_template LABELS unit)
taproot_fuzz(jinja_fuzz SOURCES jinja_fuzz.cc DEPENDS taproot_template)
