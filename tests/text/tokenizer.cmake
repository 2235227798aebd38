taproot_test(tokenizer_test
    SOURCES tokenizer_test.cc tokenizer_golden_test.cc tokenizer_injection_test.cc
        tokenizer_linear_test.cc pretokenize_test.cc vocab_test.cc detokenizer_test.cc
        prefix_token_cache_test.cc text_model_test.cc
    DEPENDS taproot_text taproot_net LABELS unit)
taproot_fuzz(tokenizer_fuzz SOURCES tokenizer_fuzz.cc DEPENDS taproot_text)
