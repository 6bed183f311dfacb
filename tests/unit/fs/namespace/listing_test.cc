// What directories show, from any position.

#include "fs/namespace/listing.h"

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

using Names = std::vector<std::string>;

class ListingTest : public FilesystemTest {
 protected:
  std::unique_ptr<OpenDirectory> open(std::string_view path, View view = View::decoded) {
    auto directory = fs().listing().open(ino(path, view));
    EXPECT_TRUE(directory);
    return directory ? std::move(*directory) : nullptr;
  }
  /// At most `limit` items from a position.
  std::vector<DirectoryItem> read_items(OpenDirectory& directory, off_t from, size_t limit) {
    std::vector<DirectoryItem> items;
    EXPECT_TRUE(fs().listing().read(directory, from, [&](const DirectoryItem& item) {
      if (items.size() == limit) return false;
      items.push_back(item);
      return true;
    }));
    return items;
  }
};

TEST_F(ListingTest, ADirectoryShowsItsViewsNames) {
  EXPECT_EQ(list(""), (Names{".zgroup", ".zattrs", ".zmetadata", "g", "v", "link"}));
  EXPECT_EQ(list("/v"), (Names{".zarray", ".zattrs", "0"}));
  EXPECT_EQ(list("", View::encoded), (Names{".zgroup", ".zattrs", ".zmetadata", "g", "v", "link"}));
  EXPECT_EQ(list("/v", View::encoded), (Names{".zarray", ".zattrs", "0"}));
  EXPECT_EQ(list("", View::npy), (Names{"v.npy", "link.npy", "g"}));
  EXPECT_EQ(list("/g", View::raw), (Names{"deep"}));
  EXPECT_EQ(list("/.codecfs"), (Names{"filters", "log", "stats", "view"}));
  EXPECT_EQ(list("/.codecfs/view"), (Names{"decoded", "encoded", "decoded3", "encoded3", "npy", "raw"}));
}

TEST_F(ListingTest, EveryListedNameIsFoundAndHasTheSameType) {
  for (const View view : {View::decoded, View::encoded, View::decoded3, View::encoded3, View::npy, View::raw}) {
    for (const std::string path : {"", "/g"}) {
      const auto directory = open(path, view);
      ASSERT_TRUE(fs().listing().read(*directory, 2, [&](const DirectoryItem& item) {
        const Result<struct stat> found = find(path + "/" + item.name, view);
        EXPECT_TRUE(found) << item.name;
        if (!found) return true;
        EXPECT_EQ(found->st_mode & S_IFMT, item.type) << item.name;
        if (item.attributes) {
          EXPECT_EQ(item.attributes()->st_ino, found->st_ino) << item.name;
        }
        return true;
      }));
    }
  }
}

TEST_F(ListingTest, AReaderContinuesAtAnyPosition) {
  for (const std::string path : {"", "/v", "/.codecfs", "/.codecfs/view"}) {
    source_->put("/v", 1, "efgh");
    const auto directory = open(path);
    const std::vector<DirectoryItem> all = read_items(*directory, 0, 100);
    ASSERT_GE(all.size(), 6);
    EXPECT_EQ(all[0].name, ".");
    EXPECT_EQ(all[1].name, "..");
    for (size_t i = 0; i + 1 < all.size(); ++i) {
      const std::vector<DirectoryItem> next = read_items(*directory, all[i].next, 1);
      ASSERT_EQ(next.size(), 1) << path << " after " << all[i].name;
      EXPECT_EQ(next[0].name, all[i + 1].name);
    }
    EXPECT_TRUE(read_items(*directory, all.back().next, 1).empty()) << path;
  }
}

TEST_F(ListingTest, WrittenAndRemovedChunksCount) {
  source_->add_variable("/many", text_variable({4000}, {4}));
  for (uint64_t number = 0; number < 1000; number += 3) source_->put("/many", number, "abcd");
  ASSERT_TRUE(write_file("/many/1", "wxyz"));
  ASSERT_TRUE(write_file("/many/998", "wxyz"));
  ASSERT_TRUE(fs().tree().unlink(ino("/many"), "0"));
  Names expected{".zarray", ".zattrs", "1"};
  for (uint64_t number = 3; number < 999; number += 3) expected.push_back(std::to_string(number));
  expected.insert(expected.end(), {"998", "999"});
  EXPECT_EQ(list("/many"), expected);
}

TEST_F(ListingTest, ScratchFilesComeLast) {
  for (const std::string name : {".a.tmp", ".b.tmp"}) ASSERT_TRUE(write_file("/v/" + name, "x"));
  EXPECT_EQ(list("/v"), (Names{".zarray", ".zattrs", "0", ".a.tmp", ".b.tmp"}));
  const auto directory = open("/v");
  const auto all = read_items(*directory, 2, 100);
  EXPECT_EQ(read_items(*directory, all[3].next, 10).size(), 1);
  EXPECT_EQ(read_items(*directory, all[4].next, 10).size(), 0);
}

TEST_F(ListingTest, AReaderThatRemovesScratchFilesSkipsNone) {
  for (const std::string name : {".a.tmp", ".b.tmp", ".c.tmp"}) ASSERT_TRUE(write_file("/v/" + name, "x"));
  const auto directory = open("/v");
  Names seen;
  for (off_t at = 16;;) {
    const auto items = read_items(*directory, at, 1);
    if (items.empty()) break;
    at = items[0].next;
    seen.push_back(items[0].name);
    if (items[0].name.starts_with('.')) {
      ASSERT_TRUE(fs().tree().unlink(ino("/v"), items[0].name));
    }
  }
  EXPECT_EQ(seen, (Names{"0", ".a.tmp", ".b.tmp", ".c.tmp"}));
}

TEST_F(ListingTest, AbsentChunksWithoutAFillValueAreListed) {
  Variable variable = text_variable({12}, {4});
  variable.fill_value = Json();
  source_->add_variable("/n", variable);
  source_->put("/n", 1, "abcd");
  ASSERT_TRUE(fs().tree().unlink(ino("/n"), "1"));
  EXPECT_EQ(list("/n"), (Names{".zarray", ".zattrs", "0", "2"}));
}

TEST_F(ListingTest, ChunksThatNoIndexNamesAreNotListedWithoutBound) {
  Variable variable = text_variable({uint64_t{1} << 40}, {4});
  variable.fill_value = Json();
  source_->add_variable("/n", variable);
  const auto directory = open("/n");
  EXPECT_EQ(error_of(fs().listing().read(*directory, 16, [](const DirectoryItem&) { return true; })), EFBIG);
}

// The kernel keeps the attributes of a listing: of a name that went meanwhile it must get none.
TEST_F(ListingTest, AttributesOfANameThatWentFail) {
  const auto directory = open("");
  ASSERT_TRUE(fs().tree().unlink(kRootIno, "link"));
  ASSERT_TRUE(fs().tree().rename(kRootIno, "g", kRootIno, "h", true));
  Names there;
  ASSERT_TRUE(fs().listing().read(*directory, 16, [&](const DirectoryItem& item) {
    if (item.attributes()) there.push_back(item.name);
    return true;
  }));
  EXPECT_EQ(there, (Names{"v"}));
}

TEST_F(ListingTest, OnlyDirectoriesAreOpened) {
  EXPECT_EQ(error_of(fs().listing().open(ino("/v/0"))), ENOTDIR);
  EXPECT_EQ(error_of(fs().listing().open(ino("/link"))), ENOTDIR);
  EXPECT_EQ(error_of(fs().listing().open(Ino{77} << kLocalBits | 1)), ESTALE);
}

}  // namespace
}  // namespace codecfs::fs
