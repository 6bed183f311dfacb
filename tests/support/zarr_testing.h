#pragma once
// A Zarr store in its own directory, which is removed after the test.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "backends/api/source.h"

namespace codecfs::zarr_testing {

class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "codecfs_zarr_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    top_ = name;
    root_ = top_ / "store";
    std::filesystem::create_directory(root_);
    put(".zgroup", R"({"zarr_format": 2})");
  }
  void TearDown() override {
    source_.reset();
    std::filesystem::remove_all(top_);
  }

  [[nodiscard]] std::filesystem::path store() const { return root_; }
  void put(const std::string& key, std::string_view text) const {
    std::filesystem::create_directories((root_ / key).parent_path());
    std::ofstream(root_ / key, std::ios::binary) << text;
  }
  [[nodiscard]] std::string get(const std::string& key) const {
    std::ifstream in(root_ / key, std::ios::binary);
    EXPECT_TRUE(in) << key;
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::filesystem::path top_, root_;  // root_: the store in top_
  std::unique_ptr<Source> source_;
};

}  // namespace codecfs::zarr_testing
