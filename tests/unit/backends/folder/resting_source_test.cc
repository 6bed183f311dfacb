// A source that is closed and opened again: what its ids stand for, before and after another program has changed it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <cstring>
#include <filesystem>

#include "backends/api/processes.h"
#include "backends/api/source.h"
#include "backends/open/source_opener.h"
#include "base/unique_fd.h"
#include "support/hdf5_testing.h"

namespace codecfs {
namespace {

using hdf5_testing::Handle;

class RestingSourceTest : public hdf5_testing::Hdf5Files {
 protected:
  void SetUp() override { prepare_sources(); }
  void TearDown() override { source_.reset(); }

  void put(const std::string& name, int value) const {
    const Handle file = create(false, 0, name);
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk = 4;
    H5Pset_chunk(properties.get(), 1, &chunk);
    const Handle dataset = hdf5_testing::make_dataset(file, "v", H5T_STD_I32LE, {4}, properties.get(), {H5S_UNLIMITED});
    hdf5_testing::write_all<int>(dataset, H5T_NATIVE_INT, {value, value, value, value});
  }
  void open(bool may_write) {
    auto opened = SourceOpener().open(path("a.h5"), may_write);
    ASSERT_TRUE(opened) << opened.error().reason;
    source_ = SourceOpener().make_resting(std::move(*opened), path("a.h5"), may_write);
  }
  ObjectId variable() { return source_->find(source_->root().object, "v").value().object; }
  Result<int> read(ObjectId id) {
    CODECFS_ASSIGN(const Buffer chunk, source_->read_chunk(id, 0));
    int value = -1;
    std::memcpy(&value, chunk.data(), sizeof value);
    return value;
  }
  [[nodiscard]] bool is_locked() const {
    const UniqueFd file(::open(path("a.h5").c_str(), O_RDWR | O_CLOEXEC));
    return ::flock(file.get(), LOCK_EX | LOCK_NB) != 0;
  }

  std::unique_ptr<Source> source_;
};

TEST_F(RestingSourceTest, KeepsItsIdsIfNothingHasChanged) {
  put("a.h5", 7);
  open(true);
  ASSERT_TRUE(source_->can_rest());
  const ObjectId id = variable();
  EXPECT_EQ(read(id).value(), 7);
  const int values[4] = {8, 8, 8, 8};
  ASSERT_TRUE(source_->begin_writing_to(id));
  ASSERT_TRUE(source_->write_chunk(id, 0, std::as_bytes(std::span(values))));
  ASSERT_TRUE(source_->commit());
  EXPECT_TRUE(is_locked());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(source_->close_idle());
    EXPECT_FALSE(is_locked());
    EXPECT_TRUE(source_->status_of(source_->root().object));
    EXPECT_FALSE(is_locked()) << "the status of the root does not open it";
    EXPECT_TRUE(source_->wake().value());
    EXPECT_EQ(read(id).value(), 8);
    EXPECT_EQ(variable(), id);
  }
}

TEST_F(RestingSourceTest, IdsOfAnotherFileAreStale) {
  put("a.h5", 7);
  put("b.h5", 9);
  open(false);
  const ObjectId id = variable();
  EXPECT_EQ(read(id).value(), 7);
  ASSERT_TRUE(source_->close_idle());
  std::filesystem::rename(path("b.h5"), path("a.h5"));
  // Before wake(), too: a thread that reads ahead.
  EXPECT_EQ(source_->read_chunk(id, 0).error().code, ESTALE);
  EXPECT_FALSE(source_->wake().value());
  EXPECT_EQ(source_->read_chunk(id, 0).error().code, ESTALE);
  EXPECT_NE(variable(), id);
  EXPECT_EQ(read(variable()).value(), 9);
  ASSERT_TRUE(source_->close_idle());
  EXPECT_TRUE(source_->wake().value());
  EXPECT_EQ(read(variable()).value(), 9);
}

TEST_F(RestingSourceTest, AFileThatIsGoneIsStaleUntilItIsThere) {
  put("a.h5", 7);
  open(false);
  const ObjectId id = variable();
  ASSERT_TRUE(source_->close_idle());
  std::filesystem::rename(path("a.h5"), path("c.h5"));
  EXPECT_EQ(source_->wake().error().code, ESTALE);
  EXPECT_EQ(source_->read_chunk(id, 0).error().code, ESTALE);
  EXPECT_TRUE(source_->commit());
  std::filesystem::rename(path("c.h5"), path("a.h5"));
  EXPECT_TRUE(source_->wake().value());
  EXPECT_EQ(read(id).value(), 7);
}

TEST_F(RestingSourceTest, AFolderDoesNotRest) {
  put("a.h5", 7);
  auto folder = SourceOpener().open(std::filesystem::path(path("a.h5")).parent_path().string());
  ASSERT_TRUE(folder);
  EXPECT_FALSE(SourceOpener().make_resting(std::move(*folder), path(""), false)->can_rest());
}

}  // namespace
}  // namespace codecfs
