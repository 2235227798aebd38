// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "base/assert.h"

namespace taproot::cli {

// A new private folder (mode 0700) that is removed with everything in it.
class TemporaryFolder {
public:
    explicit TemporaryFolder(const std::string& prefix) {
        path_ = (std::filesystem::temp_directory_path() / (prefix + "-XXXXXX")).string();
        TAPROOT_ASSERT(::mkdtemp(path_.data()) != nullptr);
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
};

}  // namespace taproot::cli
