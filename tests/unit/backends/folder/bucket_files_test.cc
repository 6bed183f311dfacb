// A prefix of a bucket as a folder: what is in it, and by how many requests.

#include "backends/folder/bucket_files.h"

#include <gtest/gtest.h>

#include <map>

#include "support/memory_objects.h"

namespace codecfs::folder {
namespace {

class BucketFilesTest : public testing::Test {
 protected:
  BucketFilesTest() {
    for (const char* key : {"p/a.nc", "p/notes.txt", "p/d/x", "p/d/e/y", "p/d-other", "p/empty.nc", "p/both",
                            "p/both/z", "p//x", "p/../x", "q/other"})
      objects->set(key, "text");
    objects->set("p/empty.nc", "");
    objects->set("p/s2/.zgroup", R"({"zarr_format":2})");
    objects->set("p/s2/v/.zarray", "{}");
    objects->set("p/a2/.zarray", "{}");
    objects->set("p/s3/zarr.json", R"({"zarr_format":3,"node_type":"group"})");
    objects->set("p/a3/zarr.json", R"({"zarr_format":3,"node_type":"array"})");
    objects->set("p/broken/zarr.json", "no JSON");
  }

  [[nodiscard]] std::unique_ptr<BucketFiles> open() const {
    return std::make_unique<BucketFiles>(
        BucketFiles::Place{objects, "p/", "s3://bucket/p", 4},
        [](const std::string&, bool) -> Result<std::unique_ptr<Source>> { return fail(EINVAL, "is no dataset"); });
  }

  std::shared_ptr<MemoryObjects> objects = std::make_shared<MemoryObjects>();
  const std::map<std::string, EntryKind> expected = {
      {"a.nc", EntryKind::group},   {"notes.txt", EntryKind::file}, {"d", EntryKind::folder},
      {"d-other", EntryKind::file}, {"empty.nc", EntryKind::file},  {"both", EntryKind::folder},
      {"s2", EntryKind::group},     {"a2", EntryKind::variable},    {"s3", EntryKind::group},
      {"a3", EntryKind::variable},  {"broken", EntryKind::folder}};
};

TEST_F(BucketFilesTest, ListsDatasetsFoldersAndFiles) {
  const auto files = open();
  std::map<std::string, EntryKind> found;
  const auto listed = files->list("", {}).value();
  for (const auto& [name, what] : listed) found[name] = what.kind;
  EXPECT_EQ(found, expected);
  EXPECT_EQ(objects->lists, 1);
  EXPECT_LE(objects->gets, 7 * 3) << "of each directory";
  (void)files->list("", {});
  EXPECT_EQ(objects->lists, 1) << "for a while";
  EXPECT_EQ(files->look("a.nc").value()->kind, EntryKind::group);
  EXPECT_EQ(objects->lists, 1) << "the list knows it";
}

TEST_F(BucketFilesTest, LooksNamesUp) {
  const auto files = open();
  for (const auto& [name, kind] : expected) {
    const auto found = files->look(name).value();
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->kind, kind) << name;
  }
  EXPECT_EQ(objects->lists, 2) << "the second name is asked for by a list of all";
  for (const char* const name : {"x", "..", "a", "d/none"}) EXPECT_FALSE(files->look(name).value()) << name;
  EXPECT_TRUE(files->look("d/e").value());
  EXPECT_EQ(files->stat("notes.txt").value()->st_size, 4);
}

TEST_F(BucketFilesTest, LooksDirectoriesUpBehindOthers) {
  const auto files = open();
  objects->page_size = 1;  // "p/d-other" is before "p/d/"
  EXPECT_EQ(files->look("d").value()->kind, EntryKind::folder);
}

TEST_F(BucketFilesTest, AListTakesThePlaceOfManyNames) {
  for (int i = 0; i < 300; ++i) objects->set("p/large/" + std::to_string(1000 + i), "text");
  objects->page_size = 5;
  const auto files = open();
  const auto look = [&](int i) { return files->look("large/" + std::to_string(1000 + i)).value()->status.st_size; };
  // A list has 60 pages: two names do not pay for it, which is found out with 20; eight do.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(look(i), 4);
  EXPECT_EQ(objects->lists, 2 + 20);
  for (int i = 2; i < 7; ++i) EXPECT_EQ(look(i), 4);
  EXPECT_LE(objects->lists, 7 + 20 + 40);
  for (int i = 7; i < 300; ++i) EXPECT_EQ(look(i), 4);
  EXPECT_LE(objects->lists, 8 + 20 + 40 + 60);
  EXPECT_FALSE(files->look("large/none").value());
}

// The names that icechunk 2.3 writes in its formats 1 and 2, before the first commit and after it.
TEST_F(BucketFilesTest, AnIcechunkRepositoryIsNoFolder) {
  const auto has_any = [&](const std::vector<std::string>& names) {
    objects = std::make_shared<MemoryObjects>();
    for (const std::string& name : names) objects->set("p/" + name, "text");
    return open()->has_any();
  };
  EXPECT_EQ(has_any({"refs/branch.main/ref.json", "snapshots/1CECHNKREP0F1RSTCMT0"}).error().code, EINVAL);
  EXPECT_EQ(has_any({"repo", "snapshots/1CECHNKREP0F1RSTCMT0", "transactions/1CECHNKREP0F1RSTCMT0"}).error().code,
            EINVAL);
  EXPECT_TRUE(has_any({"refs/main", "snapshots/5d0f"}).value()) << "a cache of models";
  EXPECT_TRUE(has_any({"repo", "transactions/2020.nc"}).value());
}

TEST_F(BucketFilesTest, ADatasetThatIsNoneBecomesAFile) {
  const auto files = open();
  const auto found = files->look("a.nc").value();
  EXPECT_EQ(files->open_dataset("a.nc", *found, false).error().code, EINVAL);
  std::map<std::string, EntryKind> found_then;
  const auto listed = files->list("", {}).value();
  for (const auto& [name, what] : listed) found_then[name] = what.kind;
  EXPECT_EQ(found_then["a.nc"], EntryKind::file);
}

TEST_F(BucketFilesTest, ReadsFiles) {
  const auto files = open();
  const auto content = files->open_content("notes.txt").value();
  EXPECT_EQ(content->size(), 4U);
  const Buffer bytes = content->read(1, 2).value();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "ex");
  EXPECT_EQ(files->open_content("none").error().code, ENOENT);
  EXPECT_EQ(files->open_file("notes.txt").error().code, EOPNOTSUPP);
}

TEST_F(BucketFilesTest, IsInterrupted) {
  const auto files = open();
  objects->hangs = true;
  const Interruption::Check yes = [] { return true; };
  {
    const Interruption::Scope scope(&yes);
    EXPECT_EQ(files->list("", {}).error().code, EINTR);
    EXPECT_EQ(files->look("a.nc").error().code, EINTR);
  }
  objects->hangs = false;
  EXPECT_EQ(files->list("", {}).value().size(), expected.size());
}

}  // namespace
}  // namespace codecfs::folder
