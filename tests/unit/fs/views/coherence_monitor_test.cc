// Changes of the source by other programs, with -o coherent.

#include "fs/views/coherence_monitor.h"

#include <thread>

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

class CoherenceMonitorTest : public FilesystemTest {
 protected:
  CoherenceMonitorTest() { options_.coherent = true; }
  CoherenceMonitor& coherence() { return fs().coherence(); }
  /// Another program has changed the object; the next request looks at it.
  void changed_outside(const std::string& path) {
    source_->note_changed_outside(path);
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }
  void resize(const std::string& path, std::vector<uint64_t> shape) {
    ASSERT_TRUE(source_->resize(source_->object(path), shape));
    changed_outside(path);
  }
};

TEST_F(CoherenceMonitorTest, WithoutTheOptionOnlyFoldersChange) {
  options_.coherent = false;
  EXPECT_FALSE(coherence().may_change_outside(ino("/v")));
  EXPECT_FALSE(coherence().may_change_outside(ino("/v/0")));
  const size_t size = read("/v/.zarray").size();
  resize("/v", {1000});
  EXPECT_EQ(read("/v/.zarray").size(), size);
}

TEST_F(CoherenceMonitorTest, AllButControlFilesMayChange) {
  EXPECT_TRUE(coherence().may_change_outside(ino("/v")));
  EXPECT_TRUE(coherence().may_change_outside(ino("/v/0")));
  EXPECT_TRUE(coherence().may_change_outside(ino("/g/.zattrs")));
  EXPECT_FALSE(coherence().may_change_outside(mount().tree.nodes.control().ino()));
  EXPECT_FALSE(coherence().may_change_outside(ino("/.codecfs/stats")));
}

TEST_F(CoherenceMonitorTest, AnObjectIsNotLookedAtAllTheTime) {
  EXPECT_TRUE(coherence().is_due(5));
  EXPECT_FALSE(coherence().is_due(5));
  EXPECT_TRUE(coherence().is_due(6));
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_TRUE(coherence().is_due(5));
}

TEST_F(CoherenceMonitorTest, AShapeThatGrewIsShownWithNewInodes) {
  const Ino chunk = ino("/v/0");
  ASSERT_EQ(find("/v", View::raw)->st_size, 8);
  kernel_.take();
  resize("/v", {12});
  EXPECT_NE(ino("/v/0"), chunk);
  EXPECT_EQ(error_of(mount().tree.nodes.at(chunk)), ESTALE);
  EXPECT_TRUE(kernel_.has(Kernel::contents(chunk, 2)));
  EXPECT_TRUE(kernel_.has(Kernel::name(kRootIno, "v")));
  EXPECT_EQ(find("/v", View::raw)->st_size, 12);
}

TEST_F(CoherenceMonitorTest, AChangeOfAttributesAloneKeepsInodes) {
  const Ino chunk = ino("/v/0");
  const std::string before = read("/v/.zattrs");
  const Attribute units{"units", Json("K")};
  ASSERT_TRUE(source_->set_attributes(source_->object("/v"), std::span(&units, 1), {}));
  changed_outside("/v");
  EXPECT_NE(read("/v/.zattrs"), before);
  EXPECT_EQ(ino("/v/0"), chunk);
}

TEST_F(CoherenceMonitorTest, AnOpenedChunkIsReadAgain) {
  ASSERT_EQ(read("/v/0"), "abcd");
  source_->put("/v", 0, "ABCD");
  EXPECT_EQ(read("/v/0"), "ABCD");
  const auto array = fs().files().open(ino("/v", View::raw), false, false);
  ASSERT_EQ(read(**array), "ABCD....");
  source_->put("/v", 0, "1234");
  const auto again = fs().files().open(ino("/v", View::raw), false, false);
  EXPECT_EQ(read(**again), "1234....");
}

TEST_F(CoherenceMonitorTest, AVariableThatIsWrittenKeepsItsShape) {
  const auto file = fs().files().open(ino("/v/0"), true, false);
  ASSERT_TRUE(write(**file, 0, "X"));
  const Ino chunk = ino("/v/0");
  resize("/v", {12});
  EXPECT_EQ(ino("/v/0"), chunk);
  (*file)->close();
  ASSERT_TRUE(fs().sync_all());
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_NE(ino("/v/0"), chunk);
  EXPECT_EQ(read("/v/0"), "Xbcd");
}

TEST_F(CoherenceMonitorTest, ARemovedChunkComesBackIfAnotherProgramWritesIt) {
  ASSERT_TRUE(fs().tree().unlink(ino("/v"), "0"));
  EXPECT_EQ(error_of(find("/v/0")), ENOENT);
  EXPECT_EQ(coherence().changes_of(node("/v")).removed.size(), 1);
  source_->put("/v", 0, "back");
  EXPECT_EQ(read("/v/0"), "back");
  EXPECT_EQ(coherence().changes_of(node("/v")).removed.size(), 0);
}

TEST_F(CoherenceMonitorTest, WithoutTheOptionARemovedChunkStaysRemoved) {
  options_.coherent = false;
  ASSERT_TRUE(fs().tree().unlink(ino("/v"), "0"));
  source_->put("/v", 0, "back");
  EXPECT_EQ(error_of(find("/v/0")), ENOENT);
}

}  // namespace
}  // namespace codecfs::fs
