// A folder through the Source interface: what is shown, when datasets are opened and closed, and that writes go to the
// right file.

#include "backends/folder/folder_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "backends/api/processes.h"
#include "backends/folder/datasets.h"
#include "backends/open/source_opener.h"
#include "backends/zarr/source/zarr_source.h"
#include "support/hdf5_testing.h"

namespace codecfs {
namespace {

namespace fs = std::filesystem;
using hdf5_testing::Handle;

constexpr size_t kMaxOpen = folder::Datasets::kMaxOpen;

class FolderTest : public hdf5_testing::Hdf5Files {
 protected:
  // Before a test starts threads: where a thread forks while another allocates, ASan's allocator stays locked.
  void SetUp() override { prepare_sources(); }
  void TearDown() override { source_.reset(); }

  void put(const std::string& name, std::string_view text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  /// Creates a file with the variable "v" of four int32, one chunk, all of one value.
  void put_dataset(const std::string& name, int value) const {
    fs::create_directories((folder_ / name).parent_path());
    const Handle file = create(false, 0, name);
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk = 4;
    H5Pset_chunk(properties.get(), 1, &chunk);
    const Handle dataset = hdf5_testing::make_dataset(file, "v", H5T_STD_I32LE, {4}, properties.get(), {H5S_UNLIMITED});
    hdf5_testing::write_all<int>(dataset, H5T_NATIVE_INT, {value, value, value, value});
  }

  [[nodiscard]] int stored(const std::string& name, const char* variable = "v") const {
    const Handle file(H5Fopen(path(name).c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    const Handle dataset(H5Dopen2(file.get(), variable, H5P_DEFAULT));
    int values[4] = {};
    EXPECT_GE(H5Dread(dataset.get(), H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0) << name;
    return values[3];
  }

  Source& source() {
    if (!source_) {
      auto opened = SourceOpener().open(folder_.string(), true);
      EXPECT_TRUE(opened) << opened.error().reason;
      source_ = std::move(*opened);
    }
    return *source_;
  }

  Result<Entry> at(const std::string& where) { return hdf5_testing::entry_at(source(), where); }

  /// The value in the variable's chunk; -1 and a failure if it cannot be read.
  int read(ObjectId variable) {
    const auto chunk = source().read_chunk(variable, 0);
    EXPECT_TRUE(chunk) << chunk.error().reason;
    int value = -1;
    if (chunk && chunk->size() == 16) std::memcpy(&value, chunk->data() + 12, sizeof value);
    return value;
  }

  Result<> write(ObjectId variable, int value) {
    const int values[4] = {value, value, value, value};
    CODECFS_TRY(source().begin_writing_to(variable));
    return source().write_chunk(variable, 0, std::as_bytes(std::span(values)));
  }

  /// "name:kind" of all, in the order of the listing.
  std::vector<std::string> list(ObjectId group) {
    static constexpr const char* kKinds[] = {"group", "variable", "symlink", "folder", "file"};
    const auto entries = source().list(group);
    EXPECT_TRUE(entries) << entries.error().reason;
    std::vector<std::string> names;
    for (const Entry& entry : *entries)
      names.push_back(entry.name + ":" + kKinds[static_cast<int>(entry.kind)] +
                      (entry.kind == EntryKind::symlink ? ">" + entry.target : ""));
    return names;
  }

  /// Open descriptors of this process for a file of that name in the folder.
  [[nodiscard]] size_t open_descriptors(const std::string& name = {}) const {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string target = fs::read_symlink(entry, gone).string();
      count += name.empty() ? target.starts_with(path("")) : target == path(name);
    }
    return count;
  }

  /// Opens so many other datasets that all previously used ones are closed.
  void use_many_others() {
    for (size_t i = 0; i < kMaxOpen; ++i) {
      const std::string name = fmt::format("more/{}.h5", i);
      if (!fs::exists(folder_ / name)) put_dataset(name, static_cast<int>(i));
      const auto found = at(name + "/v");
      ASSERT_TRUE(found) << found.error().reason;
      EXPECT_EQ(read(found->object), static_cast<int>(i));
    }
  }

  std::unique_ptr<Source> source_;
};

TEST_F(FolderTest, ShowsWhatThereIs) {
  put_dataset("data.h5", 1);
  put_dataset("named.txt", 1);
  put("group.zarr/.zgroup", R"({"zarr_format": 2})");
  put("array/.zarray", R"({"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "<i4", "compressor": null,
      "filters": null, "fill_value": 0, "order": "C"})");
  put("text.h5", "no HDF5 at all");
  put("empty", "");
  put("sub/deeper/file", "x");
  put("classic.nc", "CDF\001 and more");
  put("v3/zarr.json", "{}");
  put(".data.h5.codecfs-wal", "a log of ours");
  fs::create_symlink("data.h5", folder_ / "link");
  fs::create_symlink("/nowhere/at/all", folder_ / "dangling");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(source().root().kind, EntryKind::folder);
  EXPECT_EQ(list(source().root().object),
            (std::vector<std::string>{"array:variable", "classic.nc:file", "dangling:symlink>/nowhere/at/all",
                                      "data.h5:group", "empty:file", "group.zarr:group", "link:symlink>data.h5",
                                      "named.txt:group", "sub:folder", "text.h5:file", "v3:folder"}));
  EXPECT_EQ(list(at("sub")->object), std::vector<std::string>{"deeper:folder"});
  EXPECT_EQ(list(at("v3")->object), std::vector<std::string>{"zarr.json:file"});
  EXPECT_EQ(list(at("data.h5")->object), std::vector<std::string>{"v:variable"});
  EXPECT_EQ(list(at("group.zarr")->object), std::vector<std::string>{});
  EXPECT_EQ((*source().facts(at("array")->object))->grid.rank(), 1);
  EXPECT_EQ(at("data.h5/v")->object, at("data.h5/v")->object);
  for (const char* name : {"pipe", ".data.h5.codecfs-wal", "", ".", "..", "sub/deeper", "nothing"}) {
    const auto found = source().find(source().root().object, name);
    EXPECT_TRUE(!found && found.error().code == ENOENT) << name;
  }
}

TEST_F(FolderTest, OpensADatasetWhenItIsAskedForSomethingInIt) {
  put_dataset("a.h5", 1);
  put_dataset("b.h5", 2);
  const auto root = source().root().object;
  list(root);
  const Entry a = *at("a.h5");
  EXPECT_EQ(source().status_of(a.object)->st_size, static_cast<off_t>(fs::file_size(folder_ / "a.h5")));
  EXPECT_EQ(open_descriptors(), 0);
  EXPECT_EQ(list(a.object), std::vector<std::string>{"v:variable"});
  EXPECT_GE(open_descriptors("a.h5"), 1);
  EXPECT_EQ(open_descriptors("b.h5"), 0);
}

TEST_F(FolderTest, KeepsIdsOfDatasetsThatWereClosedMeanwhile) {
  put_dataset("a.h5", 7);
  const Entry file = *at("a.h5");
  const Entry variable = *at("a.h5/v");
  EXPECT_EQ(read(variable.object), 7);
  use_many_others();
  EXPECT_EQ(open_descriptors("a.h5"), 0);
  EXPECT_LE(open_descriptors(), 4 * kMaxOpen);
  EXPECT_EQ(at("a.h5/v")->object, variable.object);
  use_many_others();
  EXPECT_EQ(read(variable.object), 7);
  use_many_others();
  EXPECT_EQ(list(file.object), std::vector<std::string>{"v:variable"});
}

TEST_F(FolderTest, ClosesWhatNobodyUses) {
  put_dataset("a.h5", 1);
  put_dataset("b.h5", 2);
  const Entry a = *at("a.h5/v");
  ASSERT_TRUE(write(at("b.h5/v")->object, 5));
  source().release_idle(std::chrono::seconds(60));
  EXPECT_GE(open_descriptors("a.h5"), 1);
  source().release_idle(std::chrono::seconds(0));
  EXPECT_EQ(open_descriptors(), 0);
  EXPECT_EQ(stored("b.h5"), 5);
  {
    const Handle other(H5Fopen(path("a.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    EXPECT_TRUE(other);
  }
  EXPECT_EQ(read(a.object), 1);
  EXPECT_EQ(read(at("b.h5/v")->object), 5);
}

TEST_F(FolderTest, StoresWhatIsWrittenInItsFile) {
  for (const int i : {1, 2, 3}) put_dataset(fmt::format("{}.h5", i), i);
  for (const int i : {1, 2}) {
    const auto written = write(at(fmt::format("{}.h5/v", i))->object, 10 * i);
    ASSERT_TRUE(written) << written.error().reason;
  }
  const auto before = fs::last_write_time(folder_ / "3.h5");
  EXPECT_EQ(read(at("2.h5/v")->object), 20);
  ASSERT_TRUE(source().commit());
  ASSERT_TRUE(source().finish());
  source_.reset();
  EXPECT_EQ(stored("1.h5"), 10);
  EXPECT_EQ(stored("2.h5"), 20);
  EXPECT_EQ(stored("3.h5"), 3);
  EXPECT_EQ(fs::last_write_time(folder_ / "3.h5"), before);
}

TEST_F(FolderTest, StoresWhatWasWrittenBeforeItClosesADataset) {
  put_dataset("a.h5", 1);
  const Entry variable = *at("a.h5/v");
  ASSERT_TRUE(write(variable.object, 5));
  use_many_others();
  EXPECT_EQ(open_descriptors("a.h5"), 0);
  EXPECT_EQ(stored("a.h5"), 5);
  EXPECT_EQ(at("a.h5/v")->object, variable.object);  // our own change does not make it another dataset
  ASSERT_TRUE(write(variable.object, 6));
  ASSERT_TRUE(source().finish());
  source_.reset();
  EXPECT_EQ(stored("a.h5"), 6);
}

TEST_F(FolderTest, FindsWhatWasMovedAfterItsDatasetWasClosed) {
  put_dataset("a.h5", 1);
  const ObjectId file = at("a.h5")->object;
  const ObjectId variable = at("a.h5/v")->object;
  use_many_others();
  const auto group = source().make_group(file, "g");
  ASSERT_TRUE(group) << group.error().reason;
  ASSERT_TRUE(source().rename(file, "v", group->object, "w"));
  EXPECT_EQ(at("a.h5/g/w")->object, variable);
  use_many_others();
  EXPECT_EQ(read(variable), 1);
  EXPECT_EQ(at("a.h5/g/w")->object, variable);
}

TEST_F(FolderTest, DoesNotTakeWhatIsNewForWhatWasRemoved) {
  put_dataset("a.h5", 1);
  const ObjectId file = at("a.h5")->object;
  const ObjectId variable = at("a.h5/v")->object;
  const Variable like = **source().variable(variable);
  ASSERT_TRUE(source().remove(file, "v"));
  const auto made = source().make_variable(file, "v", like);
  ASSERT_TRUE(made) << made.error().reason;
  EXPECT_NE(made->object, variable);
  for (int round = 0; round < 2; ++round) {
    const auto facts = source().facts(variable);
    EXPECT_TRUE(!facts && facts.error().code == (round == 0 ? ENOENT : ESTALE)) << round;
    EXPECT_TRUE(source().facts(made->object)) << round;
    use_many_others();
  }
}

TEST_F(FolderTest, ADamagedFileIsADirectoryThatTellsWhy) {
  put("broken.h5", "\x89HDF\r\n\x1a\n and nothing that makes sense");
  put_dataset("good.h5", 3);
  const Entry broken = *at("broken.h5");
  EXPECT_EQ(broken.kind, EntryKind::group);
  for (int round = 0; round < 2; ++round) {
    const auto listed = source().list(broken.object);
    ASSERT_FALSE(listed);
    EXPECT_EQ(listed.error().code, EIO);
    EXPECT_NE(listed.error().reason.find("broken.h5"), std::string::npos) << listed.error().reason;
  }
  EXPECT_EQ(read(at("good.h5/v")->object), 3);
  put_dataset("new.h5", 4);
  fs::rename(folder_ / "new.h5", folder_ / "broken.h5");
  EXPECT_EQ(read(at("broken.h5/v")->object), 4);
  const auto stale = source().list(broken.object);
  EXPECT_TRUE(!stale);
}

TEST_F(FolderTest, SeesWhatOtherProgramsDoToTheFolder) {
  put_dataset("a.h5", 1);
  const ObjectId before = at("a.h5/v")->object;
  EXPECT_EQ(read(before), 1);
  put("new.txt", "new");
  EXPECT_TRUE(at("new.txt"));
  // Replace it by another file.
  put_dataset("b.h5", 2);
  fs::rename(folder_ / "b.h5", folder_ / "a.h5");
  EXPECT_EQ(read(at("a.h5/v")->object), 2);
  EXPECT_EQ(read(before), 1);  // of the file that was opened
  fs::remove(folder_ / "new.txt");
  EXPECT_EQ(at("new.txt").error().code, ENOENT);
  // After a rename it is the same dataset.
  const ObjectId now = at("a.h5/v")->object;
  fs::rename(folder_ / "a.h5", folder_ / "c.h5");
  EXPECT_EQ(at("c.h5/v")->object, now);
}

TEST_F(FolderTest, AFileThatWasWrittenInItsPlaceIsAnotherDataset) {
  put_dataset("a.h5", 1);
  const ObjectId before = at("a.h5/v")->object;
  EXPECT_EQ(read(before), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that the mtime differs
  {
    // A program that ignores locks, as on a filesystem without locks.
    put_dataset("changed.h5", 9);
    std::ifstream in(folder_ / "changed.h5", std::ios::binary);
    std::fstream(folder_ / "a.h5", std::ios::binary | std::ios::in | std::ios::out) << in.rdbuf();
  }
  const ObjectId after = at("a.h5/v")->object;
  EXPECT_NE(after, before);
  EXPECT_EQ(read(after), 9);
  const auto old = source().facts(before);
  EXPECT_TRUE(!old && old.error().code == ESTALE);
}

TEST_F(FolderTest, ASecondNameOfADatasetIsALinkToTheFirst) {
  put_dataset("b.h5", 1);
  fs::create_directory(folder_ / "sub");
  fs::create_hard_link(folder_ / "b.h5", folder_ / "sub/a.h5");
  EXPECT_EQ(list(source().root().object), (std::vector<std::string>{"b.h5:group", "sub:folder"}));
  EXPECT_EQ(list(at("sub")->object), std::vector<std::string>{"a.h5:symlink>../b.h5"});
  fs::remove(folder_ / "b.h5");
  EXPECT_EQ(list(at("sub")->object), std::vector<std::string>{"a.h5:group"});
  EXPECT_EQ(read(at("sub/a.h5/v")->object), 1);
}

TEST_F(FolderTest, TheFolderItselfIsOnlyRead) {
  put("file", "text");
  put_dataset("a.h5", 1);
  put_dataset("b.h5", 2);
  const ObjectId root = source().root().object;
  const ObjectId variable = at("a.h5/v")->object;
  const auto is_refused = [](const auto& result) { return !result && result.error().code == EPERM; };
  EXPECT_TRUE(is_refused(source().make_group(root, "new")));
  EXPECT_TRUE(is_refused(source().make_variable(root, "new", **source().variable(variable))));
  EXPECT_TRUE(is_refused(source().make_link(root, "new", "file")));
  EXPECT_TRUE(is_refused(source().remove(root, "a.h5")));
  EXPECT_TRUE(is_refused(source().rename(root, "a.h5", root, "c.h5")));
  EXPECT_TRUE(is_refused(source().begin_writing_to(at("file")->object)));
  EXPECT_TRUE(is_refused(source().set_attributes(root, {}, {})));
  const auto moved = source().rename(at("a.h5")->object, "v", at("b.h5")->object, "w");
  EXPECT_TRUE(!moved && moved.error().code == EXDEV);
  EXPECT_EQ(list(root), (std::vector<std::string>{"a.h5:group", "b.h5:group", "file:file"}));
}

TEST_F(FolderTest, FilesAreReadAsTheyAre) {
  put("sub/file", "some bytes");
  const Entry file = *at("sub/file");
  EXPECT_EQ(source().status_of(file.object)->st_size, 10);
  const auto fd = source().open_file(file.object);
  ASSERT_TRUE(fd) << fd.error().reason;
  char bytes[16] = {};
  EXPECT_EQ(::pread(fd->get(), bytes, sizeof bytes, 5), 5);
  EXPECT_STREQ(bytes, "bytes");
  // A link in its place is not followed, nor one in place of its directory.
  fs::rename(folder_ / "sub", folder_ / "other");
  fs::create_symlink("other", folder_ / "sub");
  EXPECT_EQ(source().open_file(file.object).error().code, ENOTDIR);
  fs::remove(folder_ / "sub");
  fs::create_directory(folder_ / "sub");
  fs::create_symlink("../other/file", folder_ / "sub/file");
  EXPECT_EQ(source().open_file(file.object).error().code, ESTALE);
}

TEST_F(FolderTest, ALinkInThePlaceOfADatasetIsNotOpened) {
  put_dataset("a.h5", 1);
  put_dataset("elsewhere/b.h5", 2);
  const Entry file = *at("a.h5");
  fs::remove(folder_ / "a.h5");
  fs::create_symlink("elsewhere/b.h5", folder_ / "a.h5");
  const auto listed = source().list(file.object);
  EXPECT_TRUE(!listed && listed.error().code == ESTALE);
}

TEST_F(FolderTest, TheMountPointIsNotShown) {
  fs::create_directories(folder_ / "sub/mnt/deep");
  put("sub/file", "x");
  ASSERT_TRUE(source().exclude_path((folder_ / "sub/mnt").string()));
  EXPECT_EQ(list(at("sub")->object), std::vector<std::string>{"file:file"});
  EXPECT_EQ(at("sub/mnt").error().code, ENOENT);
  EXPECT_EQ(at("sub/mnt/deep").error().code, ENOENT);
  for (const fs::path& over : {folder_, folder_.parent_path(), fs::path("/")})
    EXPECT_EQ(source().exclude_path(over.string()).error().code, EINVAL) << over;
}

TEST_F(FolderTest, ManyThreadsUseMoreDatasetsThanAreOpen) {
  constexpr size_t kFiles = kMaxOpen + 8;
  for (size_t i = 0; i < kFiles; ++i) put_dataset(fmt::format("{}.h5", i), static_cast<int>(i));
  (void)source();
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (size_t round = 0; round < 2 * kFiles; ++round) {
          const size_t i = (round * 7 + t * 11) % kFiles;
          const auto variable = at(fmt::format("{}.h5/v", i));
          if (!variable || read(variable->object) != static_cast<int>(i)) ++wrong;
        }
      });
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace codecfs
