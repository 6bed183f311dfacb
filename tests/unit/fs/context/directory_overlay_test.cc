// What directories show beside their source.

#include "fs/context/directory_overlay.h"

#include <gtest/gtest.h>

namespace codecfs::fs {
namespace {

class DirectoryOverlayTest : public testing::Test {
 protected:
  const Node decoded_{
      .kind = NodeKind::variable, .view = View::decoded, .target = {}, .path = "/v", .slot = 5, .common = 5};
  const Node encoded_{
      .kind = NodeKind::variable, .view = View::encoded, .target = {}, .path = "/v", .slot = 6, .common = 5};
  // The same directory as a group: its metadata files are others.
  const Node group_{.kind = NodeKind::group, .view = View::decoded, .target = {}, .path = "/v", .slot = 5, .common = 5};
  DirectoryOverlay overlay_;
};

TEST_F(DirectoryOverlayTest, AFreshDirectoryHidesItsFilesInTheViewThatMadeIt) {
  overlay_.add_fresh(group_, false);
  EXPECT_TRUE(overlay_.state_of(decoded_).fresh);
  EXPECT_TRUE(overlay_.state_of(decoded_).hidden.contains(FileKind::zgroup));
  EXPECT_FALSE(overlay_.state_of(encoded_).fresh);
  EXPECT_TRUE(overlay_.state_of(encoded_).hidden.empty());
  overlay_.show(decoded_, {FileKind::zgroup});
  EXPECT_FALSE(overlay_.state_of(decoded_).hidden.contains(FileKind::zgroup));
  EXPECT_TRUE(overlay_.state_of(decoded_).hidden.contains(FileKind::zattrs));
}

TEST_F(DirectoryOverlayTest, AnEmptyGroupHidesItsFilesUntilSomethingIsMadeInIt) {
  overlay_.add_fresh(group_, true);
  overlay_.change(decoded_, [](DirectoryState& state) { state.latest -= DirectoryOverlay::kFresh * 2; });
  EXPECT_TRUE(overlay_.state_of(group_).empty);
  EXPECT_TRUE(overlay_.state_of(group_).hidden.contains(FileKind::zgroup));
  Node group = group_;
  group.view = View::encoded3;
  EXPECT_FALSE(overlay_.state_of(group).empty);
  EXPECT_TRUE(overlay_.state_of(group).hidden.empty());
  overlay_.note_made(group);  // it is the same directory
  EXPECT_FALSE(overlay_.state_of(group_).empty);
  EXPECT_TRUE(overlay_.state_of(group_).fresh);
}

TEST_F(DirectoryOverlayTest, AListingEndsIt) {
  overlay_.add_fresh(group_, false);
  overlay_.end_fresh(decoded_);
  EXPECT_FALSE(overlay_.state_of(decoded_).fresh);
  EXPECT_TRUE(overlay_.state_of(decoded_).hidden.empty());
}

TEST_F(DirectoryOverlayTest, WhatIsHiddenLaterStaysHidden) {
  overlay_.change(decoded_, [](DirectoryState& state) { state.hidden.insert(FileKind::zarray); });
  overlay_.end_fresh(decoded_);
  EXPECT_TRUE(overlay_.state_of(encoded_).hidden.contains(FileKind::zarray));
  EXPECT_TRUE(is_condemned(decoded_, overlay_.state_of(decoded_)));
}

TEST_F(DirectoryOverlayTest, AnExpiredFreshDirectoryIsLikeAnyOther) {
  overlay_.add_fresh(group_, false);
  overlay_.change(decoded_, [](DirectoryState& state) { state.latest -= DirectoryOverlay::kFresh * 2; });
  EXPECT_FALSE(overlay_.state_of(decoded_).fresh);
  // Removed now: it must not come back, as the files that the fresh directory had hidden do.
  overlay_.change(decoded_, [](DirectoryState& state) { state.hidden.insert(FileKind::zattrs); });
  EXPECT_EQ(overlay_.state_of(decoded_).hidden, std::set{FileKind::zattrs});
}

TEST_F(DirectoryOverlayTest, RulesAreAppliedOnce) {
  EXPECT_FALSE(overlay_.note_rule_applied(decoded_));
  EXPECT_TRUE(overlay_.note_rule_applied(encoded_));
}

TEST_F(DirectoryOverlayTest, UnlinkedChunksAreThoseOfAllViewsUntilTheyAreForgotten) {
  overlay_.add_unlinked(decoded_, 7);
  EXPECT_TRUE(overlay_.is_unlinked(encoded_, 7));
  EXPECT_FALSE(overlay_.is_unlinked(encoded_, 8));
  EXPECT_EQ(overlay_.unlinked(decoded_), std::unordered_set<uint64_t>{7});
  overlay_.forget_unlinked(encoded_, 7);
  EXPECT_FALSE(overlay_.is_unlinked(decoded_, 7));
  overlay_.add_unlinked(decoded_, 9);
  overlay_.forget(decoded_);
  EXPECT_FALSE(overlay_.is_unlinked(decoded_, 9));
}

}  // namespace
}  // namespace codecfs::fs
