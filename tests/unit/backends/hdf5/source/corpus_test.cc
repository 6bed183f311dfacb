// Every chunk of every HDF5 file in a folder is equal to what libhdf5 reads, or the error gives the reason.
// CODECFS_CORPUS names the folder (searched recursively); without it the test is skipped.

#include <fcntl.h>

#include <algorithm>
#include <cstdlib>

#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/metadata/type_map.h"
#include "base/unique_fd.h"
#include "support/hdf5_testing.h"

namespace codecfs {
namespace {

using namespace hdf5_testing;

// Reads the same chunk with H5Dread and libhdf5's own driver. Beyond the array's edge it keeps the bytes of `ours`.
std::vector<std::byte> chunk_by_library(hid_t dataset, const Variable& variable, uint64_t number, const Buffer& ours) {
  std::vector<std::byte> bytes(ours.bytes().begin(), ours.bytes().end());
  const Handle space(H5Dget_space(dataset));
  const Handle type(H5Dget_type(dataset));
  auto mapped = hdf5::map_type(type.get());
  const auto rank = static_cast<size_t>(H5Sget_simple_extent_ndims(space.get()));
  std::vector<uint64_t> coordinates(variable.grid.rank());
  variable.grid.coordinates_of(number, coordinates);
  std::vector<hsize_t> start(rank), count(rank), zero(rank), chunk(rank);
  for (size_t d = 0; d < rank; ++d) {
    chunk[d] = variable.grid.chunks()[d];
    start[d] = coordinates[d] * chunk[d];
    count[d] = std::min<hsize_t>(chunk[d], variable.grid.shape()[d] - start[d]);
  }
  const Handle memory(rank == 0 ? H5Screate(H5S_SCALAR)
                                : H5Screate_simple(static_cast<int>(rank), chunk.data(), nullptr));
  if (rank > 0) {
    H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
    H5Sselect_hyperslab(memory.get(), H5S_SELECT_SET, zero.data(), nullptr, count.data(), nullptr);
  }
  if (H5Dread(dataset, mapped->memory.get(), memory.get(), space.get(), H5P_DEFAULT, bytes.data()) < 0) bytes.clear();
  return bytes;
}

void check_variable(Source& source, hid_t file, const std::string& where, const Entry& entry) {
  const auto variable = source.variable(entry.object);
  if (!variable) {
    ADD_FAILURE() << where << ": " << variable.error().reason;
    return;
  }
  const Variable& v = **variable;
  ASSERT_TRUE(v.dimensions && v.dimensions->size() == v.grid.rank()) << where;
  uint64_t from = 0;
  uint64_t listed = 0;
  while (true) {
    const auto numbers = source.stored_chunks(entry.object, from, 10);
    ASSERT_TRUE(numbers) << where << ": " << numbers.error().reason;
    if (numbers->empty()) break;
    for (const uint64_t number : *numbers) {
      ASSERT_GE(number, from) << where;
      from = number + 1;
      ++listed;
      const auto info = source.locate(entry.object, number);
      ASSERT_TRUE(info && info->stored) << where;
      const auto chunk = source.read_chunk(entry.object, number);
      if (!chunk) {
        EXPECT_FALSE(chunk.error().reason.empty());
        const bool expected = v.unreadable || where.find("damaged") != std::string::npos ||
                              chunk.error().reason.find("32999") != std::string::npos;
        EXPECT_TRUE(expected) << where << ": " << chunk.error().reason;
        continue;
      }
      if (!v.chunk_bytes) continue;
      ASSERT_EQ(chunk->size(), *v.chunk_bytes) << where;
      if (file < 0) continue;
      const hdf5::LibraryLock lock;
      const std::string path = where.substr(where.find(':') + 1);
      Handle dataset(H5Dopen2(file, path.c_str(), H5P_DEFAULT));
      if (!dataset) dataset = Handle(H5Dopen2(file, ("_nc4_non_coord_" + path.substr(1)).c_str(), H5P_DEFAULT));
      ASSERT_TRUE(dataset) << where;
      const auto theirs = chunk_by_library(dataset.get(), v, number, *chunk);
      if (theirs.empty()) continue;  // libhdf5 cannot
      EXPECT_TRUE(std::ranges::equal(theirs, chunk->bytes())) << where << " chunk " << v.grid.name_of(number);
    }
  }
  if (v.grid.count() < 10000) {
    for (uint64_t number = 0; number < v.grid.count(); ++number) {
      const auto info = source.locate(entry.object, number);
      ASSERT_TRUE(info) << where << info.error().reason;
      listed -= info->stored ? 1 : 0;
    }
    EXPECT_EQ(listed, 0U) << where << ": the chunks that are listed are not those that are found";
  }
}

TEST(Hdf5Corpus, EveryChunkIsWhatLibhdf5Reads) {
  const char* corpus = std::getenv("CODECFS_CORPUS");
  if (corpus == nullptr || !std::filesystem::is_directory(corpus))
    GTEST_SKIP() << "CODECFS_CORPUS names no folder of HDF5 files";
  size_t files = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(corpus)) {
    const std::string path = item.path().string();
    std::error_code ignored;  // a cyclic link
    if (!item.is_regular_file(ignored) || (!path.ends_with(".h5") && !path.ends_with(".nc"))) continue;
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!looks_like_hdf5(fd.get())) continue;
    SCOPED_TRACE(path);
    auto source = open_hdf5(path);
    if (!source) {
      ADD_FAILURE() << source.error().reason;
      continue;
    }
    ++files;
    Handle file;
    {
      const hdf5::LibraryLock lock;
      file = Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    }
    EXPECT_TRUE((*source)->group_attributes((*source)->root().object));
    walk(**source, (*source)->root(), item.path().filename().string() + ":",
         [&](const auto& where, const Entry& entry) {
           if (entry.kind == EntryKind::variable) check_variable(**source, file.get(), where, entry);
           if (entry.kind == EntryKind::group) {
             EXPECT_TRUE((*source)->group_attributes(entry.object)) << where;
           }
           const auto parent = where.substr(where.find(':') + 2);
           const auto found = entry_at(**source, parent);
           ASSERT_TRUE(found) << where << ": " << found.error().reason;
           EXPECT_EQ(found->object, entry.object) << where;
           EXPECT_EQ(found->target, entry.target) << where;
         });
  }
  EXPECT_GT(files, 0U);
}

}  // namespace
}  // namespace codecfs
