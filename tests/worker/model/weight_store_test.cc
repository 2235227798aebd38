// SPDX-License-Identifier: Apache-2.0
#include "worker/model/weight_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <future>

#include "base/units.h"
#include "tests/support/tiny_model.h"
#include "tests/worker/model/model_session.h"
#include "worker/model/weight_file.h"
#include "worker/model/weights.h"

namespace taproot {
namespace {

namespace fs = std::filesystem;
using testing::must_load;
using testing::TinyModelOptions;

class WeightStoreTest : public ::testing::Test {
protected:
    WeightStoreTest() {
        std::string name = fs::temp_directory_path() / "taproot_weights_XXXXXX";
        folder_ = ::mkdtemp(name.data());
    }
    ~WeightStoreTest() override {
        std::error_code ignored;
        fs::remove_all(folder_, ignored);
        for (int fd : descriptors_) ::close(fd);
    }

    int shared_memory() {
        int fd = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        EXPECT_GE(fd, 0);
        return descriptors_.emplace_back(fd);
    }
    static LoadedModel model(std::uint64_t seed = 1) {
        return must_load(
            testing::write_tiny_model({.seed = seed, .dtype = "mixed", .tied = false}).path());
    }
    static Weights load(const LoadedModel& model, WeightStoreOptions options) {
        ForkJoin pool(2);
        auto weights = load_weights(model, WeightMode::kNative, pool, WeightStore(options));
        EXPECT_TRUE(weights) << weights.error().describe();
        return std::move(*weights);
    }
    static std::vector<std::byte> bytes(const Weights& weights) {
        const std::byte* data = weights.memory.data();
        return {data, data + weights.memory.identity().payload_bytes};
    }
    static bool starts_ready(const LoadedModel& model, WeightStoreOptions options) {
        WeightStore store(options);
        EXPECT_TRUE(store.open(*plan_weights(model, WeightMode::kNative)));
        return store.ready();
    }
    static ino_t inode(const fs::path& path) {
        struct stat info = {};
        EXPECT_EQ(::stat(path.c_str(), &info), 0);
        return info.st_ino;
    }
    void flip_byte(const fs::path& path, std::streamoff at) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(at);
        char byte = static_cast<char>(file.get() ^ 0x10);
        file.seekp(at);
        file.put(byte);
    }

    fs::path folder_;

private:
    std::vector<int> descriptors_;
};

// Panel by panel: what the matrices read is what packing them alone gives.
TEST_F(WeightStoreTest, MatricesLieInTheOrderOfAStepAndHoldWhatPackingGives) {
    LoadedModel model = this->model();
    Weights weights = load(model, {});
    std::vector<const PanelMatrix*> order;
    for (const LayerWeights& layer : weights.layers)
        for (const StackedMatrix* matrix :
             {&layer.qkv, &layer.attention_out, &layer.gate_up, &layer.down})
            for (const PanelMatrix& part : matrix->parts()) order.push_back(&part);
    order.push_back(&weights.embedding);
    order.push_back(&*weights.untied_head);
    const std::byte* at = weights.memory.data();
    for (const PanelMatrix* matrix : order) {
        EXPECT_EQ(matrix->panel(0), at);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % 64, 0u);
        at += round_up<std::size_t>(matrix->bytes(), 64);
    }
    EXPECT_EQ(at, weights.memory.data() + weights.memory.identity().payload_bytes);

    const GgufTensor* down = model.file.find_tensor("blk.1.ffn_down.weight");
    PanelMatrix::Source source{down->bytes.data(), static_cast<int>(down->rows())};
    const PanelMatrix& placed = weights.layers[1].down.parts()[0];
    ForkJoin pool(1);
    auto alone = PanelMatrix::pack(placed.dtype(), placed.columns(), {&source, 1}, pool);
    ASSERT_TRUE(alone);
    EXPECT_EQ(std::memcmp(alone->panel(0), placed.panel(0), placed.bytes()), 0);
}

TEST_F(WeightStoreTest, EveryPlaceHoldsTheSameBytesAndGivesTheSameLogits) {
    LoadedModel model = this->model();
    std::vector<std::byte> expected = bytes(load(model, {}));
    WeightStoreOptions shared{.shared_fd = shared_memory()};
    WeightStoreOptions cached{.cache = folder_ / "weights"};
    auto tokens = testing::random_tokens(20, testing::kTinyVocabulary, 3);
    std::vector<float> logits;
    for (const WeightStoreOptions& options :
         {WeightStoreOptions{}, shared, shared, cached, cached}) {
        EXPECT_EQ(bytes(load(model, options)), expected);
        auto executor = CpuExecutor::create(model, {.kv_blocks = 4}, WeightStore(options));
        ASSERT_TRUE(executor);
        auto session = testing::ModelSession::with_blocks(0, 4);
        auto row = testing::feed(**executor, session, tokens, 7);
        if (logits.empty()) logits = row;
        EXPECT_TRUE(testing::same_bits(row, logits));
    }
    EXPECT_TRUE(starts_ready(model, shared));
    EXPECT_TRUE(starts_ready(model, cached));
    EXPECT_FALSE(starts_ready(model, {}));
}

TEST_F(WeightStoreTest, SharedMemoryIsSealedOnceFilled) {
    LoadedModel model = this->model();
    WeightStoreOptions options{.shared_fd = shared_memory()};
    Weights first = load(model, options);
    int seals = ::fcntl(options.shared_fd, F_GET_SEALS);
    EXPECT_EQ(seals & (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW),
              F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
    EXPECT_EQ(::pwrite(options.shared_fd, "x", 1, 5000), -1);
    EXPECT_EQ(::ftruncate(options.shared_fd, 0), -1);
    Weights second = load(model, options);
    EXPECT_TRUE(second.memory.costs_no_memory());
    EXPECT_FALSE(first.memory.costs_no_memory());
    EXPECT_EQ(bytes(first), bytes(second));
    EXPECT_NE(first.memory.describe().find("share"), std::string::npos);
}

TEST_F(WeightStoreTest, OthersWaitForTheOneThatFillsSharedMemory) {
    LoadedModel model = this->model();
    WeightStoreOptions options{.shared_fd = shared_memory()};
    WeightIdentity identity = *plan_weights(model, WeightMode::kNative);
    WeightStore first(options);
    ASSERT_TRUE(first.open(identity));
    ASSERT_FALSE(first.ready());
    auto second = std::async(std::launch::async, [&] { return load(model, options); });
    // It cannot be done before the lock is gone; a moment shows that it does not try without.
    EXPECT_EQ(second.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
    ForkJoin pool(1);
    auto filled = load_weights(model, WeightMode::kNative, pool, std::move(first));
    ASSERT_TRUE(filled);
    Weights found = second.get();
    EXPECT_TRUE(found.memory.costs_no_memory());
    EXPECT_EQ(bytes(found), bytes(*filled));
}

TEST_F(WeightStoreTest, TheNextOneStartsOverWhenTheFillingProcessDies) {
    LoadedModel model = this->model();
    WeightStoreOptions options{.shared_fd = shared_memory()};
    WeightIdentity identity = *plan_weights(model, WeightMode::kNative);
    pid_t child = ::fork();
    if (child == 0) {  // fills half of it with rubbish and is gone
        WeightStore store(options);
        if (!store.open(identity) || store.ready()) ::_exit(1);
        std::memset(store.writable(), 0xAB, identity.payload_bytes / 2);
        ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    Weights weights = load(model, options);
    EXPECT_FALSE(weights.memory.costs_no_memory());
    EXPECT_EQ(bytes(weights), bytes(load(model, {})));
    EXPECT_TRUE(starts_ready(model, options));
}

TEST_F(WeightStoreTest, SharedWeightsOfAnotherModelStayAndAreNotUsed) {
    LoadedModel one = model(1), two = model(2);
    WeightStoreOptions options{.shared_fd = shared_memory()};
    Weights first = load(one, options);
    Weights second = load(two, options);
    EXPECT_FALSE(second.memory.costs_no_memory());
    EXPECT_EQ(bytes(second), bytes(load(two, {})));
    EXPECT_EQ(bytes(first), bytes(load(one, {})));
    EXPECT_TRUE(starts_ready(one, options));
}

TEST_F(WeightStoreTest, WhatIsNotSharedMemoryIsRefused) {
    LoadedModel model = this->model();
    int file = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd : {file, 987}) {
        WeightStore store({.shared_fd = fd});
        auto opened = store.open(*plan_weights(model, WeightMode::kNative));
        ASSERT_FALSE(opened);
        EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
    }
    ::close(file);
}

TEST_F(WeightStoreTest, ACacheFileIsWrittenOnceAndMapped) {
    LoadedModel model = this->model();
    WeightStoreOptions options{.cache = folder_ / "weights", .cache_mode = 0640};
    Weights first = load(model, options);
    ino_t written = inode(options.cache);
    EXPECT_EQ(fs::file_size(options.cache),
              WeightImageHeader::kBytes + first.memory.identity().payload_bytes);
    EXPECT_EQ(fs::status(options.cache).permissions(), static_cast<fs::perms>(0640));
    EXPECT_FALSE(fs::exists(folder_ / "weights.tmp"));
    Weights second = load(model, options);
    EXPECT_EQ(inode(options.cache), written);
    EXPECT_NE(first.memory.describe().find("weights"), std::string::npos);
    EXPECT_EQ(first.memory.describe().substr(0, 20), second.memory.describe().substr(0, 20));
}

TEST_F(WeightStoreTest, AFileThatIsNotTheseWeightsIsWrittenAnew) {
    LoadedModel model = this->model();
    fs::path path = folder_ / "weights";
    WeightStoreOptions options{.cache = path};
    std::vector<std::byte> expected = bytes(load(model, options));
    auto whole = fs::file_size(path);
    struct Damage {
        const char* what;
        std::function<void()> apply;
    };
    const Damage damages[] = {
        {"version", [&] { flip_byte(path, 8); }},
        {"digest of the model", [&] { flip_byte(path, 20); }},
        {"first weight", [&] { flip_byte(path, 4096); }},
        {"weight in the middle", [&] { flip_byte(path, static_cast<std::streamoff>(whole / 2)); }},
        {"last weight", [&] { flip_byte(path, static_cast<std::streamoff>(whole - 1)); }},
        {"cut off", [&] { fs::resize_file(path, whole - 1); }},
        {"empty", [&] { fs::resize_file(path, 0); }},
        {"not ours", [&] { std::ofstream(path) << std::string(8192, 'x'); }},
        {"another model", [&] { load(this->model(9), options); }},
    };
    for (const Damage& damage : damages) {
        damage.apply();
        ino_t before = inode(path);
        EXPECT_EQ(bytes(load(model, options)), expected) << damage.what;
        EXPECT_NE(inode(path), before) << damage.what;
        EXPECT_TRUE(starts_ready(model, options)) << damage.what;
        EXPECT_EQ(bytes(load(model, options)), expected) << damage.what;
    }
}

// A file made by a program that packs in another way, and says nothing about it.
TEST_F(WeightStoreTest, AnotherPackingIsFoundThoughAllDigestsFit) {
    LoadedModel model = this->model();
    fs::path path = folder_ / "weights";
    Weights weights = load(model, {.cache = path});
    std::vector<std::byte> other = bytes(weights);
    other[3] ^= std::byte{1};
    ForkJoin pool(1);
    WeightImageHeader header{weights.memory.identity(), payload_digest(other, pool)};
    ASSERT_TRUE(write_weight_file(path, 0600, header, other));
    EXPECT_TRUE(starts_ready(model, {.cache = path}));
    EXPECT_EQ(bytes(load(model, {.cache = path})), bytes(load(model, {})));
}

TEST_F(WeightStoreTest, AFileThatIsMappedSurvivesItsReplacement) {
    LoadedModel one = model(1), two = model(2);
    WeightStoreOptions options{.cache = folder_ / "weights"};
    Weights old = load(one, options);
    load(two, options);
    EXPECT_EQ(bytes(old), bytes(load(one, {})));
    fs::remove(options.cache);
    EXPECT_EQ(bytes(old), bytes(load(one, {})));
}

TEST_F(WeightStoreTest, WorksWithoutWhatItCannotWrite) {
    LoadedModel model = this->model();
    std::vector<std::byte> expected = bytes(load(model, {}));
    std::ofstream(folder_ / "file") << "x";
    for (const fs::path& path : {folder_ / "file" / "weights", folder_ / "missing" / "weights",
                                 fs::path("/proc/weights"), folder_}) {
        EXPECT_EQ(bytes(load(model, {.cache = path})), expected) << path;
        EXPECT_FALSE(starts_ready(model, {.cache = path})) << path;
    }
}

TEST_F(WeightStoreTest, LeavesAFileAloneThatAnotherProcessIsWriting) {
    LoadedModel model = this->model();
    WeightStoreOptions options{.cache = folder_ / "weights"};
    fs::path temporary = folder_ / "weights.tmp";
    int other = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(::write(other, "half", 4), 4);
    ASSERT_EQ(::flock(other, LOCK_EX), 0);
    EXPECT_EQ(bytes(load(model, options)), bytes(load(model, {})));
    EXPECT_FALSE(fs::exists(options.cache));
    EXPECT_EQ(fs::file_size(temporary), 4u);
    ::close(other);  // died: its half is overwritten by the next
    load(model, options);
    EXPECT_TRUE(starts_ready(model, options));
    EXPECT_FALSE(fs::exists(temporary));
}

TEST(HugeMapping, StartsAtTwoMebibytesAndKeepsItsAddress) {
    auto mapping = HugeMapping::anonymous(5'000'000);
    ASSERT_TRUE(mapping);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping->data()) % (2u << 20), 0u);
    EXPECT_GE(mapping->bytes(), 5'000'000u);
    mapping->data()[4'999'999] = std::byte{1};
    std::byte* data = mapping->data();
    HugeMapping moved = std::move(*mapping);
    EXPECT_EQ(moved.data(), data);
    EXPECT_LE(moved.huge_bytes(), moved.bytes());
    EXPECT_FALSE(HugeMapping::anonymous(0));
    EXPECT_FALSE(HugeMapping::anonymous(std::size_t{1} << 60));
}

}  // namespace
}  // namespace taproot
