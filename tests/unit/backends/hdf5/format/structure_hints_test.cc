#include "backends/hdf5/format/structure_hints.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "backends/hdf5/library/hdf5_version.h"

namespace codecfs::hdf5 {
namespace {

using Content = std::vector<std::byte>;

Content bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

/// The pages that were fetched when hints were followed from the first page on, and in how many rounds.
struct Fetched {
  std::set<uint64_t> pages;
  int rounds = 0;
};

constexpr uint64_t kPageBytes = 4096;

Fetched follow_hints(StructureHints& hints, const Content& content, std::vector<remote::ByteRange> wanted) {
  Fetched fetched;
  for (; !wanted.empty(); ++fetched.rounds) {
    std::vector<remote::ByteRange> next;
    for (const remote::ByteRange& range : wanted) {
      const uint64_t begin = range.offset / kPageBytes * kPageBytes;
      const uint64_t end = std::min<uint64_t>((range.end() + kPageBytes - 1) / kPageBytes * kPageBytes, content.size());
      if (begin >= end) continue;
      for (uint64_t page = begin; page < end; page += kPageBytes) fetched.pages.insert(page / kPageBytes);
      const auto further = hints.note(begin, Bytes(content).subspan(begin, end - begin));
      next.insert(next.end(), further.begin(), further.end());
    }
    wanted = std::move(next);
  }
  return fetched;
}

Fetched follow_hints(const Content& content) {
  StructureHints hints;
  return follow_hints(hints, content, {{0, kPageBytes}});
}

class HintedFile {
 public:
  HintedFile(bool is_new, int groups, int datasets, int attributes, hsize_t chunks)
      : path_(testing::TempDir() + "hints_" + std::to_string(::getpid()) + ".h5") {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access, is_new ? H5F_LIBVER_V18 : H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST);
    const hid_t file = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    for (int g = 0; g < groups; ++g) {
      const hid_t group =
          H5Gcreate2(file, ("group" + std::to_string(g)).c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      note(group);
      for (int d = 0; d < datasets; ++d) make_dataset(group, "data" + std::to_string(d), attributes, chunks);
      H5Gclose(group);
    }
    H5Fclose(file);
    H5Pclose(access);
    content = bytes_of_file(path_);
  }
  ~HintedFile() { ::unlink(path_.c_str()); }
  HintedFile(const HintedFile&) = delete;
  HintedFile& operator=(const HintedFile&) = delete;

  Content content;
  std::set<uint64_t> headers;  // addresses of all objects

 private:
  void note(hid_t object) {
    H5O_info_t info{};
#if H5_VERSION_GE(1, 12, 0)
    H5Oget_info3(object, &info, H5O_INFO_BASIC);
    uint64_t address = 0;
    std::memcpy(&address, &info.token, sizeof address);
    headers.insert(address);
#else
    H5Oget_info(object, &info);
    headers.insert(info.addr);
#endif
  }
  void make_dataset(hid_t group, const std::string& name, int attributes, hsize_t chunks) {
    const hsize_t shape[] = {chunks * 16};
    const hsize_t chunk[] = {16};
    const hid_t space = H5Screate_simple(1, shape, nullptr);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(creation, 1, chunk);
    H5Pset_shuffle(creation);
    const hid_t dataset = H5Dcreate2(group, name.c_str(), H5T_NATIVE_INT, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    note(dataset);
    const std::vector<int> values(shape[0], 7);
    H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    const hid_t scalar = H5Screate(H5S_SCALAR);
    for (int a = 0; a < attributes; ++a) {
      const hid_t attribute = H5Acreate2(dataset, ("attribute" + std::to_string(a)).c_str(), H5T_NATIVE_INT, scalar,
                                         H5P_DEFAULT, H5P_DEFAULT);
      H5Awrite(attribute, H5T_NATIVE_INT, &a);
      H5Aclose(attribute);
    }
    H5Sclose(scalar);
    H5Dclose(dataset);
    H5Pclose(creation);
    H5Sclose(space);
  }

  const std::string path_;
};

size_t missing_headers(const HintedFile& file, const Fetched& fetched) {
  return static_cast<size_t>(std::ranges::count_if(
      file.headers, [&](uint64_t address) { return !fetched.pages.contains(address / kPageBytes); }));
}

/// Pages with this signature at its alignment that were not fetched.
size_t missing_structures(const HintedFile& file, const Fetched& fetched, const char* signature) {
  size_t count = 0;
  for (uint64_t at = 0; at + 8 <= file.content.size(); at += 8)
    if (std::memcmp(file.content.data() + at, signature, 4) == 0 && !fetched.pages.contains(at / kPageBytes)) ++count;
  return count;
}

TEST(StructureHints, FindObjectsOfOldGroups) {
  const HintedFile file(false, 12, 40, 3, 4);
  const Fetched fetched = follow_hints(file.content);
  EXPECT_EQ(file.headers.size(), 12U + 12 * 40);
  EXPECT_EQ(missing_headers(file, fetched), 0U);
  EXPECT_EQ(missing_structures(file, fetched, "SNOD"), 0U);
  EXPECT_LE(fetched.rounds, 10);
}

TEST(StructureHints, FindObjectsOfNewGroups) {
  const HintedFile file(true, 3, 100, 3, 4);
  const Fetched fetched = follow_hints(file.content);
  EXPECT_LE(missing_headers(file, fetched), file.headers.size() / 100) << "but for links beside gaps in a heap";
  EXPECT_EQ(missing_structures(file, fetched, "FHDB"), 0U);
  EXPECT_LE(fetched.rounds, 8);
}

TEST(StructureHints, FindManyAttributes) {
  const HintedFile file(true, 1, 5, 200, 1);
  const Fetched fetched = follow_hints(file.content);
  EXPECT_EQ(missing_headers(file, fetched), 0U);
  for (const char* signature : {"FRHP", "FHDB", "BTHD", "BTLF", "BTIN"})
    EXPECT_EQ(missing_structures(file, fetched, signature), 0U) << signature;
}

TEST(StructureHints, FollowSmallIndexesAndOthersOnDemand) {
  const HintedFile small(false, 1, 2, 0, 300);
  EXPECT_EQ(missing_structures(small, follow_hints(small.content), "TREE"), 0U);

  const HintedFile large(false, 1, 1, 0, 30'000);
  StructureHints hints;
  Fetched fetched = follow_hints(hints, large.content, {{0, kPageBytes}});
  EXPECT_EQ(missing_headers(large, fetched), 0U);
  EXPECT_GT(missing_structures(large, fetched, "TREE"), 400U);
  const Fetched more = follow_hints(hints, large.content, hints.follow_indexes());
  fetched.pages.insert(more.pages.begin(), more.pages.end());
  EXPECT_EQ(missing_structures(large, fetched, "TREE"), 0U);
  EXPECT_LE(more.rounds, 4);
  EXPECT_TRUE(hints.follow_indexes().empty()) << "once";
}

TEST(StructureHints, FollowTheRestOfPartsThatWereCut) {
  const HintedFile large(false, 1, 1, 0, 30'000);
  StructureHints hints;
  (void)follow_hints(hints, large.content, {{0, kPageBytes}});
  // Each node arrives in two pieces, and then, when both are there, as a whole.
  std::set<uint64_t> noted;
  std::vector<remote::ByteRange> wanted = hints.follow_indexes();
  for (std::vector<remote::ByteRange> next; !wanted.empty(); wanted = std::exchange(next, {}))
    for (const remote::ByteRange& node : wanted) {
      noted.insert(node.offset);
      const Bytes bytes =
          Bytes(large.content).subspan(node.offset).first(std::min(node.size, large.content.size() - node.offset));
      for (const auto& [begin, size] :
           {std::pair<uint64_t, uint64_t>{0, 100}, {100, bytes.size() - 100}, {0, bytes.size()}})
        for (const remote::ByteRange& further : hints.note(node.offset + begin, bytes.subspan(begin, size)))
          next.push_back(further);
    }
  EXPECT_GT(noted.size(), 400U);
}

TEST(StructureHints, OfDamagedFilesEnd) {
  std::mt19937 random(3);
  for (const bool is_new : {false, true}) {
    const HintedFile file(is_new, 2, 20, 20, 100);
    for (int round = 0; round < 300; ++round) {
      Content damaged = file.content;
      for (int i = 0; i < 200; ++i) damaged[random() % damaged.size()] = static_cast<std::byte>(random());
      for (int i = 0; i < 20; ++i) damaged[random() % 96 + 12] = static_cast<std::byte>(random());
      StructureHints hints;
      (void)follow_hints(hints, damaged, {{0, kPageBytes}});
      (void)follow_hints(hints, damaged, hints.follow_indexes());
    }
  }
  StructureHints hints;
  EXPECT_TRUE(hints.note(0, {}).empty());
  EXPECT_TRUE(hints.note(0, Content(1000)).empty());
}

}  // namespace
}  // namespace codecfs::hdf5
