// Of which inodes and names the kernel is notified after a change in each view, and in which order.

#include "fs/views/change_notifier.h"

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

using Notices = std::vector<std::string>;

constexpr std::array kAllViews{View::decoded, View::encoded, View::decoded3, View::encoded3, View::npy, View::raw};

class ChangeNotifierTest : public FilesystemTest {
 protected:
  /// Looks up a variable in all views, and forgets what the kernel was told until now.
  void know_in_all_views(const std::string& path) {
    for (const View view : kAllViews) known_[view] = ino_of_variable(path, view);
    kernel_.take();
  }
  Ino ino_of_variable(const std::string& path, View view) {
    const Ino found = ino(view == View::npy ? path + ".npy" : path, view);
    return form_of(view).array != nullptr ? found - static_cast<Ino>(FileKind::array) + 1 : found;
  }
  Ino chunk(View view, uint64_t number) { return known_[view] + static_cast<Ino>(FileKind::chunk) + number - 1; }
  Ino array(View view) { return known_[view] + static_cast<Ino>(FileKind::array) - 1; }
  Ino file(View view, FileKind kind) { return known_[view] + static_cast<Ino>(kind) - 1; }
  std::unique_ptr<FileHandle> open_to_write(Ino ino) {
    auto opened = fs().files().open(ino, true, false);
    EXPECT_TRUE(opened);
    return std::move(*opened);
  }

  std::map<View, Ino> known_;
};

TEST_F(ChangeNotifierTest, AWrittenChunkIsInvalidatedInTheOtherViewsOnly) {
  know_in_all_views("/v");
  const auto file = open_to_write(chunk(View::decoded, 0));
  kernel_.take();
  ASSERT_TRUE(write(*file, 1, "X"));
  EXPECT_EQ(kernel_.take(),
            (Notices{Kernel::content(chunk(View::encoded, 0)), Kernel::content(chunk(View::decoded3, 0)),
                     Kernel::content(chunk(View::encoded3, 0)), Kernel::part(array(View::npy), 128, 4),
                     Kernel::part(array(View::raw), 0, 4)}));
  file->close();
}

TEST_F(ChangeNotifierTest, AWriterOfTheDecodedViewOfZarr3IsOneOfTheOthers) {
  know_in_all_views("/v");
  const auto file = open_to_write(chunk(View::decoded3, 0));
  kernel_.take();
  ASSERT_TRUE(write(*file, 1, "X"));
  EXPECT_EQ(kernel_.take(), (Notices{Kernel::content(chunk(View::decoded, 0)), Kernel::content(chunk(View::encoded, 0)),
                                     Kernel::content(chunk(View::encoded3, 0)), Kernel::part(array(View::npy), 128, 4),
                                     Kernel::part(array(View::raw), 0, 4)}));
  InodeChange shorter;
  shorter.size = 1;
  ASSERT_TRUE(fs().inodes().change(chunk(View::decoded3, 0), shorter));
  const Notices notices = kernel_.take();
  EXPECT_TRUE(std::ranges::count(notices, Kernel::content(chunk(View::decoded, 0))));
  file->close();
  EXPECT_TRUE(std::ranges::count(kernel_.take(), Kernel::content(chunk(View::decoded, 0)))) << "it is longer again";
  EXPECT_EQ(read("/v/0"), "a...");
}

TEST_F(ChangeNotifierTest, NamesOfChunksAreToldToTheirDirectories) {
  options_.view = View::decoded3;
  source_->add_variable("/square", text_variable({4, 4}, {2, 2}));
  const Ino holder = ino("/square/c/1", View::decoded3);
  EXPECT_TRUE(fs().names().remembers_absence(holder, "0"));
  EXPECT_FALSE(fs().names().remembers_absence(ino("/square/c", View::decoded3), "7")) << "a directory, after growth";
  kernel_.take();
  ino("/square", View::decoded);
  ASSERT_TRUE(write_file("/square/1.0", "wxyz", View::decoded));
  EXPECT_TRUE(kernel_.has(Kernel::created(holder, "0")));
  ASSERT_TRUE(fs().tree().unlink(ino("/square", View::decoded), "1.0"));
  EXPECT_TRUE(kernel_.has(Kernel::name(holder, "0")));
}

TEST_F(ChangeNotifierTest, AnEncodedChunkIsInvalidatedWhenItIsClosed) {
  know_in_all_views("/v");
  const auto file = open_to_write(chunk(View::encoded, 0));
  ASSERT_TRUE(write(*file, 0, "ABCD"));
  EXPECT_EQ(kernel_.take(), Notices()) << "it is stored as a whole";
  ASSERT_TRUE(file->flush());
  EXPECT_EQ(kernel_.take(),
            (Notices{Kernel::content(chunk(View::decoded, 0)), Kernel::content(chunk(View::decoded3, 0)),
                     Kernel::content(chunk(View::encoded3, 0)), Kernel::part(array(View::npy), 128, 4),
                     Kernel::part(array(View::raw), 0, 4), Kernel::content(chunk(View::encoded, 0))}));
  file->close();
}

TEST_F(ChangeNotifierTest, APartOfAnArrayIsInvalidatedInTheOtherViews) {
  know_in_all_views("/v");
  const auto file = open_to_write(array(View::npy));
  kernel_.take();
  ASSERT_TRUE(write(*file, 128 + 2, "XYZ"));  // of chunks 0 and 1
  EXPECT_EQ(kernel_.take(),
            (Notices{Kernel::content(chunk(View::decoded, 0)), Kernel::content(chunk(View::decoded, 1)),
                     Kernel::content(chunk(View::encoded, 0)), Kernel::content(chunk(View::encoded, 1)),
                     Kernel::content(chunk(View::decoded3, 0)), Kernel::content(chunk(View::decoded3, 1)),
                     Kernel::content(chunk(View::encoded3, 0)), Kernel::content(chunk(View::encoded3, 1)),
                     Kernel::part(array(View::raw), 2, 3)}));
  EXPECT_TRUE(kernel_.has_waited_for(Kernel::content(chunk(View::decoded, 1)))) << "and so for all before it";
  file->close();
}

TEST_F(ChangeNotifierTest, ViewsThatWereNotLookedUpAreNotTold) {
  const Ino decoded = ino("/v/0");
  const auto file = open_to_write(decoded);
  kernel_.take();
  ASSERT_TRUE(write(*file, 0, "X"));
  EXPECT_EQ(kernel_.take(), Notices());
  file->close();
}

TEST_F(ChangeNotifierTest, ANameIsToldOnlyIfALookupFoundTheChunkAbsent) {
  source_->add_variable("/wide", text_variable({16}, {4}));
  know_in_all_views("/wide");
  EXPECT_TRUE(fs().names().remembers_absence(known_[View::decoded], "1"));
  const auto file = open_to_write(array(View::raw));
  kernel_.take();
  ASSERT_TRUE(write(*file, 0, "abcdefgh"));
  EXPECT_TRUE(kernel_.has(Kernel::created(known_[View::decoded], "1")));
  EXPECT_FALSE(kernel_.has(Kernel::created(known_[View::decoded], "0"))) << "the kernel never asked for it";
  kernel_.take();
  ASSERT_TRUE(write(*file, 0, "ABCDEFGH"));
  EXPECT_FALSE(kernel_.has(Kernel::created(known_[View::decoded], "1"))) << "once is enough";
  file->close();
}

TEST_F(ChangeNotifierTest, ANameIsToldAlsoForAWholeChunkOfAnotherView) {
  know_in_all_views("/v");
  EXPECT_TRUE(fs().names().remembers_absence(known_[View::decoded], "1"));
  ASSERT_TRUE(write_file("/v/1", "wxyz", View::encoded));
  const Notices notices = kernel_.take();
  const auto at = [&](const std::string& notice) { return std::ranges::find(notices, notice) - notices.begin(); };
  EXPECT_LT(at(Kernel::created(known_[View::decoded], "1")), std::ssize(notices));
  EXPECT_LT(at(Kernel::content(chunk(View::decoded, 1))), at(Kernel::created(known_[View::decoded], "1")))
      << "a lookup that follows must not find old pages";
}

TEST_F(ChangeNotifierTest, NamesOfTheViewThatTheMountShowsAreTold) {
  options_.view = View::encoded;
  know_in_all_views("/v");
  EXPECT_TRUE(fs().names().remembers_absence(known_[View::encoded], "1"));
  EXPECT_FALSE(fs().names().remembers_absence(known_[View::decoded], "1"));
  ASSERT_TRUE(write_file("/v/1", "wxyz"));
  EXPECT_TRUE(kernel_.has(Kernel::created(known_[View::encoded], "1")));
  EXPECT_FALSE(kernel_.has(Kernel::created(known_[View::decoded], "1")));
}

TEST_F(ChangeNotifierTest, ARemovedChunkIsToldInTheOtherViews) {
  know_in_all_views("/v");
  ASSERT_TRUE(fs().tree().unlink(known_[View::decoded], "0"));
  EXPECT_TRUE(kernel_.has(Kernel::name(known_[View::encoded], "0")));
  EXPECT_TRUE(kernel_.has(Kernel::content(chunk(View::encoded, 0))));
  EXPECT_TRUE(kernel_.has(Kernel::part(array(View::raw), 0, 4)));
  EXPECT_FALSE(kernel_.has(Kernel::name(known_[View::decoded], "0"))) << "the kernel removes it itself";
}

TEST_F(ChangeNotifierTest, AMovedVariableIsToldByBothNames) {
  know_in_all_views("/v");
  ASSERT_TRUE(fs().tree().rename(kRootIno, "v", ino("/g"), "w", true));
  for (const std::string name : {"v", "v.npy"}) EXPECT_TRUE(kernel_.has(Kernel::name(root(View::npy), name))) << name;
  EXPECT_TRUE(kernel_.has(Kernel::name(root(View::encoded), "v")));
  ino("/g", View::raw);
  kernel_.take();
  ASSERT_TRUE(fs().tree().rename(ino("/g"), "w", kRootIno, "v", true));
  EXPECT_TRUE(kernel_.has(Kernel::name(ino("/g", View::raw), "w")));
  EXPECT_TRUE(kernel_.has(Kernel::name(root(View::raw), "v")));
}

TEST_F(ChangeNotifierTest, ANewNameIsToldInTheOtherViews) {
  ASSERT_TRUE(fs().tree().make_directory(kRootIno, "n"));
  const Notices notices = kernel_.take();
  for (const View view : {View::encoded, View::npy, View::raw})
    EXPECT_TRUE(std::ranges::count(notices, Kernel::name(root(view), "n"))) << name_of(view);
  EXPECT_TRUE(std::ranges::count(notices, Kernel::name(root(View::npy), "n.npy")));
  EXPECT_FALSE(std::ranges::count(notices, Kernel::name(kRootIno, "n"))) << "the kernel makes it itself";
}

TEST_F(ChangeNotifierTest, MetadataIsInvalidatedInBothViewsAndInAllZmetadataAbove) {
  for (const View view : {View::decoded, View::encoded}) {
    known_[view] = ino("/g/deep", view);
    for (const std::string above : {"", "/g"}) read(above + "/.zmetadata", view);
  }
  Components parts(mount());
  kernel_.take();
  parts.notifier.metadata_changed(node("/g/deep"));
  const Notices notices = kernel_.take();
  for (const View view : {View::decoded, View::encoded}) {
    for (const FileKind kind : {FileKind::zarray, FileKind::zattrs, FileKind::filter, FileKind::codecs})
      EXPECT_TRUE(std::ranges::count(notices, Kernel::content(file(view, kind)))) << name_of(kind);
    for (const std::string above : {"", "/g"}) {
      const Ino zmetadata = node(above, view).ino(FileKind::zmetadata);
      EXPECT_EQ(std::ranges::count(notices, Kernel::content(zmetadata)), 1) << above;
    }
  }
  EXPECT_TRUE(kernel_.has_waited_for(notices.back()));
  EXPECT_EQ(notices.size(), 12);
  for (const View view : {View::decoded3, View::encoded3}) {
    known_[view] = ino("/g/deep", view);
    for (const std::string above : {"", "/g"}) read(above + "/zarr.json", view);
  }
  parts.notifier.metadata_changed(node("/g/deep"));
  for (const View view : {View::decoded3, View::encoded3}) {
    EXPECT_TRUE(kernel_.has(Kernel::content(file(view, FileKind::zarr_json))));
    for (const std::string above : {"", "/g"})
      EXPECT_TRUE(kernel_.has(Kernel::content(node(above, view).ino(FileKind::zarr_json)))) << above;
  }
}

TEST_F(ChangeNotifierTest, SharedMetadataIsInvalidatedOfAllVariables) {
  source_->has_shared_metadata = true;
  const Ino other = ino("/g/deep");
  const Ino changed = ino("/v");
  ino("/g/deep/.zattrs");
  Components parts(mount());
  kernel_.take();
  parts.notifier.layout_changed(node("/v"));
  EXPECT_TRUE(kernel_.has(Kernel::content(other + static_cast<Ino>(FileKind::zattrs) - 1)));
  EXPECT_TRUE(kernel_.has(Kernel::content(changed + static_cast<Ino>(FileKind::zarray) - 1)));
  source_->has_shared_metadata = false;
  kernel_.take();
  parts.notifier.layout_changed(node("/v"));
  EXPECT_FALSE(kernel_.has(Kernel::content(other + static_cast<Ino>(FileKind::zattrs) - 1)));
}

TEST_F(ChangeNotifierTest, ChangesOfNamesTakeAsManyNoticesWhateverTheKernelKnows) {
  source_->has_shared_metadata = true;
  constexpr int kVariables = 50;
  for (int i = 0; i < kVariables; ++i) {
    source_->add_variable(fmt::format("/v{}", i), text_variable({8}, {4}));
    ino(fmt::format("/v{}/.zattrs", i));
  }
  read("/.zmetadata");
  Components parts(mount());
  kernel_.take();
  parts.notifier.layout_changed(node("/v"));
  EXPECT_GE(kernel_.take().size(), kVariables) << "the kernel may have the size of each";
  for (int i = 0; i < kVariables; ++i) parts.notifier.layout_changed(node("/v"));
  EXPECT_LT(kernel_.take().size(), 10 * kVariables) << "it was notified of these";
  EXPECT_GT(find("/v7/.zattrs")->st_size, 0) << "the kernel had its size, so a program may have it open";
  source_->add_variable("/late", text_variable({8}, {4}));
  const Result<struct stat> late = find("/late/.zattrs");
  ASSERT_TRUE(late);
  EXPECT_EQ(late->st_size, MetadataView::kUnknownSize) << "names are changing";
  EXPECT_TRUE(mount().kernel.metadata_given.lacks_size(late->st_ino));
  EXPECT_GT(fs().names().attributes(late->st_ino)->st_size, 0);
  EXPECT_FALSE(mount().kernel.metadata_given.lacks_size(late->st_ino));
  EXPECT_GT(find("/late/.zattrs")->st_size, 0);
  kernel_.take();
  parts.notifier.layout_changed(node("/v"));
  EXPECT_TRUE(kernel_.has(Kernel::content(late->st_ino)));
}

TEST_F(ChangeNotifierTest, ReencodingChangesEncodedContentsAndDecodedAttributes) {
  know_in_all_views("/v");
  ASSERT_TRUE(fs().xattrs().set(known_[View::decoded], "user._Filter", "1,3", XattrMode::any));
  EXPECT_TRUE(kernel_.has(Kernel::attributes(chunk(View::decoded, 0), 2)));
  EXPECT_TRUE(kernel_.has(Kernel::contents(chunk(View::encoded, 0), 2)));
  EXPECT_FALSE(kernel_.has(Kernel::contents(chunk(View::decoded, 0), 2))) << "the decoded bytes are the same";
}

TEST_F(ChangeNotifierTest, RenumberedChunksLoseTheirNames) {
  source_->add_variable("/wide", text_variable({2, 8}, {1, 4}));
  know_in_all_views("/wide");
  std::string zarray = read("/wide/.zarray");
  const Json now = *parse_json(zarray);
  Json wanted = now;
  wanted["shape"] = {2, 12};
  kernel_.take();
  ASSERT_TRUE(write_file("/wide/.zarray", print_json(wanted)));
  EXPECT_TRUE(kernel_.has(Kernel::attributes(chunk(View::decoded, 0), 4)));
  EXPECT_TRUE(kernel_.has(Kernel::name(kRootIno, "wide")));
  EXPECT_TRUE(kernel_.has(Kernel::name(root(View::encoded), "wide")));
  EXPECT_TRUE(kernel_.has(Kernel::content(array(View::npy))));
  EXPECT_TRUE(kernel_.has(Kernel::content(array(View::raw))));
}

TEST_F(ChangeNotifierTest, AFileThatIsGoneIsToldByItsName) {
  Components parts(mount());
  const Ino chunk = ino("/v/0");
  kernel_.take();
  parts.notifier.file_gone(chunk, true);
  parts.notifier.file_gone(ino("/v/.zattrs"), false);
  EXPECT_EQ(kernel_.take(), (Notices{Kernel::name(ino("/v"), "0"), Kernel::name(ino("/v"), ".zattrs")}));
  EXPECT_FALSE(kernel_.has_waited_for(Kernel::name(ino("/v"), ".zattrs")));
}

TEST_F(ChangeNotifierTest, MetadataIsInMotionWhileItIsWrittenAndShortlyAfter) {
  Components parts(mount());
  const Ino zattrs = ino("/v/.zattrs");
  EXPECT_FALSE(parts.notifier.is_in_motion(zattrs));
  {
    const auto file = open_to_write(zattrs);
    EXPECT_TRUE(parts.notifier.is_in_motion(zattrs));
    EXPECT_FALSE(parts.notifier.is_in_motion(ino("/v/.zarray")));
  }
  EXPECT_FALSE(parts.notifier.is_in_motion(zattrs));
  parts.notifier.metadata_changed(node("/v"));
  EXPECT_TRUE(parts.notifier.is_in_motion(zattrs));
}

}  // namespace
}  // namespace codecfs::fs
