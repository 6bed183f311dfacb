#pragma once
// Common code of the tests of the write-ahead log: a source in its own directory, and its bytes.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "backends/hdf5/wal/write_log.h"

namespace codecfs::write_log_testing {

using Content = std::vector<std::byte>;

inline Content noise(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Content bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

inline Content content_of(const std::filesystem::path& path) {
  std::error_code missing;
  const uintmax_t size = std::filesystem::file_size(path, missing);
  Content content(missing ? 0 : size);
  std::ifstream stream(path, std::ios::binary);
  stream.read(reinterpret_cast<char*>(content.data()), static_cast<std::streamsize>(content.size()));
  return content;
}

inline void store(const std::filesystem::path& path, const Content& content) {
  std::ofstream stream(path, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
}

inline Content shown_by(const hdf5::LoggedFile& file) {
  Content bytes(file.size() + 10);
  const auto count = file.read(0, bytes);
  EXPECT_TRUE(count) << count.error().reason;
  bytes.resize(count.value_or(0));
  EXPECT_EQ(bytes.size(), file.size());
  return bytes;
}

/// Overwrites a part of the content, growing it as needed.
inline void overwrite(Content& content, uint64_t offset, const Content& bytes) {
  content.resize(std::max<size_t>(content.size(), offset + bytes.size()));
  std::ranges::copy(bytes, content.begin() + static_cast<ptrdiff_t>(offset));
}

class LoggedSource : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "codecfs-write-log-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = std::filesystem::canonical(name);
    source_ = directory_ / "data.h5";
    log_ = directory_ / ".data.h5.codecfs-wal";
    store(source_, before_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_;
  std::filesystem::path source_;
  std::filesystem::path log_;
  const Content before_ = noise(10'000, 1);
};

}  // namespace codecfs::write_log_testing
