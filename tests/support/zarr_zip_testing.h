#pragma once
// A Zarr store in a zip archive in its own directory, and a text description of what it shows.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "backends/zarr/source/zarr_source.h"
#include "filters/core/codec_json.h"
#include "model/json.h"
#include "support/zarr_testing.h"

namespace codecfs::zarr_zip_testing {

inline std::string text_of(const Buffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}
inline Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

inline std::string describe(Source& source, const Entry& entry, const std::string& path) {
  std::string text = path + ":";
  if (entry.kind == EntryKind::variable) {
    const auto facts = source.variable(entry.object);
    if (!facts) return text + " error: " + facts.error().reason + "\n";
    text += fmt::format(" {} {}", fmt::join((*facts)->grid.shape(), "x"),
                        print_json(filters::print_codecs((*facts)->filters)));
    for (const Attribute& attribute : (*facts)->attributes)
      text += fmt::format(" {}={}", attribute.name, print_json(attribute.value));
    const auto stored = source.stored_chunks(entry.object, 0, 100000);
    if (!stored) return text + " error: " + stored.error().reason + "\n";
    for (const uint64_t number : *stored) {
      const auto chunk = source.read_chunk(entry.object, number);
      text += fmt::format(" {}:{:x}", number, std::hash<std::string>()(chunk ? text_of(*chunk) : chunk.error().reason));
    }
    return text + "\n";
  }
  const auto attributes = source.group_attributes(entry.object);
  if (attributes)
    for (const Attribute& attribute : *attributes)
      text += fmt::format(" {}={}", attribute.name, print_json(attribute.value));
  text += "\n";
  const auto members = source.list(entry.object);
  if (!members) return text + members.error().reason;
  for (const Entry& member : *members) text += describe(source, member, path + "/" + member.name);
  return text;
}

/// Everything that a source shows.
inline std::string describe(Source& source) { return describe(source, source.root(), ""); }

/// The entries that libzip finds in an archive, by name; it also checks consistency and every CRC.
inline std::map<std::string, std::string> by_libzip(const std::filesystem::path& path) {
  std::map<std::string, std::string> found;
  int code = 0;
  const std::unique_ptr<zip_t, void (*)(zip_t*)> archive(zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code),
                                                         zip_discard);
  if (!archive) {
    ADD_FAILURE() << path << ": libzip says " << code;
    return found;
  }
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive.get(), 0); ++i) {
    zip_stat_t status;
    EXPECT_EQ(zip_stat_index(archive.get(), static_cast<zip_uint64_t>(i), 0, &status), 0);
    std::string content(status.size, '\0');
    const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
        zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(i), 0), zip_fclose);
    if (!file || zip_fread(file.get(), content.data(), content.size() + 1) != static_cast<zip_int64_t>(status.size))
      ADD_FAILURE() << status.name << ": libzip cannot read it";
    EXPECT_TRUE(found.emplace(status.name, std::move(content)).second) << status.name << " is there twice";
  }
  return found;
}

class ZipTest : public zarr_testing::StoreTest {
 protected:
  [[nodiscard]] std::filesystem::path archive() const { return top_ / "s" / "a.zip"; }
  [[nodiscard]] std::filesystem::path folder() const { return top_ / "s"; }

  void SetUp() override {
    zarr_testing::StoreTest::SetUp();
    std::filesystem::create_directory(folder());
    const auto made = create_zarr_zip(archive());
    ASSERT_TRUE(made) << made.error().reason;
  }

  static std::unique_ptr<Source> open(const std::filesystem::path& path, bool may_write, FileIo& io = real_file_io()) {
    auto source = open_zarr_zip(path, may_write, io);
    EXPECT_TRUE(source) << source.error().reason;
    return source ? std::move(*source) : nullptr;
  }
  static ObjectId object(Source& source, const std::string& path) {
    Entry entry = source.root();
    for (const auto& part : std::filesystem::path(path)) {
      auto found = source.find(entry.object, part.string());
      EXPECT_TRUE(found) << found.error().reason;
      if (found) entry = *found;
    }
    return entry.object;
  }
  static Variable variable(uint64_t length, uint64_t chunk = 700) {
    Variable made;
    made.type = {.kind = TypeKind::unsigned_int, .order = ByteOrder::none, .size = 1, .unit = {}, .members = {}};
    made.grid = *ChunkGrid::make({length}, {chunk});
    made.fill_value = Json(7);
    made.fill = {std::byte{7}};
    made.chunk_bytes = chunk;
    made.attributes = {{"units", "K"}};
    made.dimensions = {"x"};
    return made;
  }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) found.insert(entry.path().filename());
    return found;
  }
};

}  // namespace codecfs::zarr_zip_testing
