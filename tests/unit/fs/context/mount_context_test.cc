// Writes to a chunk whose place was looked up before the variable changed.

#include "fs/context/mount_context.h"

#include <cstring>

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

class MountContextTest : public FilesystemTest {
 protected:
  Result<> put(const ChunkPlace& place, std::string_view text) {
    return mount().chunks.write_back.change(
        place, false, true, [&](MutableBytes chunk) { std::memcpy(chunk.data(), text.data(), text.size()); });
  }
  /// The place of a chunk of another shape: its number and its view, with the inode number that the chunk of this
  /// number has now. A request has such a place if the shape changes between its two lookups.
  ChunkPlace former_place(std::string_view variable, const ChunkPlace& before) {
    ChunkPlace mixed = before;
    const Result<Ino> key = mount().tree.nodes.chunk_key(node(variable), 0, before.variable->facts->grid.count());
    EXPECT_TRUE(key);
    mixed.key = *key;
    return mixed;
  }
  void reshape(std::string_view variable, std::vector<uint64_t> shape) {
    nlohmann::json zarray = nlohmann::json::parse(read(std::string(variable) + "/.zarray"));
    zarray["shape"] = shape;
    const Result<> written = write_file(std::string(variable) + "/.zarray", zarray.dump());
    EXPECT_TRUE(written) << written.error().reason;
  }
};

TEST_F(MountContextTest, ANumberBeyondTheNewShapeIsRefused) {
  const ChunkPlace before = chunk_place("/v", 1);
  reshape("/v", {4});
  EXPECT_EQ(error_of(put(former_place("/v", before), "late")), ESTALE);
  EXPECT_TRUE(mount().chunks.write_back.commit()) << "nothing is left that cannot be stored";
}

TEST_F(MountContextTest, ANumberThatMeansAnotherChunkIsRefused) {
  source_->add_variable("/m", text_variable({2, 8}, {1, 4}));
  const ChunkPlace before = chunk_place("/m", 2);  // 1.0
  reshape("/m", {2, 12});
  EXPECT_EQ(error_of(put(former_place("/m", before), "late")), ESTALE) << "it is the number of 0.2 now";
  reshape("/m", {2, 8});
  EXPECT_TRUE(put(chunk_place("/m", 2), "good"));
}

TEST_F(MountContextTest, ANumberThatMeansTheSameChunkIsWritten) {
  const ChunkPlace before = chunk_place("/v", 0);
  reshape("/v", {4});
  EXPECT_TRUE(put(former_place("/v", before), "late"));
  EXPECT_EQ(read("/v/0"), "late");
}

TEST_F(MountContextTest, AFormerInodeNumberIsRefused) {
  const ChunkPlace before = chunk_place("/v", 0);
  reshape("/v", {12});
  reshape("/v", {4});
  EXPECT_EQ(error_of(put(before, "late")), ESTALE);
}

}  // namespace
}  // namespace codecfs::fs
