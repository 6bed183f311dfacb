// Writing chunks to Zarr directories: the content of the files, excluded programs, and the state after errors.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "backends/zarr/source/zarr_source.h"
#include "backends/zarr/store/directory_writer.h"
#include "base/endian.h"
#include "support/zarr_testing.h"

namespace codecfs {
namespace {

namespace files = std::filesystem;

using Names = std::set<std::string>;
using Numbers = std::vector<uint64_t>;

/// Calls the operating system, except for the call that must fail.
class FailingIo : public FileIo {
 public:
  Result<File> create(const File& directory, const std::string& name, mode_t mode) override {
    CODECFS_TRY(next("create"));
    return real_file_io().create(directory, name, mode);
  }
  Result<> write(const File& file, uint64_t offset, Bytes bytes) override {
    if (const Result<> failed = next("write"); !failed) {  // a full disk accepts a part
      (void)real_file_io().write(file, offset, bytes.first(bytes.size() / 2));
      return failed;
    }
    return real_file_io().write(file, offset, bytes);
  }
  Result<> truncate(const File& file, uint64_t size) override {
    CODECFS_TRY(next("truncate"));
    return real_file_io().truncate(file, size);
  }
  Result<> sync_data(const File& file) override {
    CODECFS_TRY(next("sync " + file.path));
    return real_file_io().sync_data(file);
  }
  Result<> sync(const File& file) override {
    CODECFS_TRY(next("sync " + file.path));
    return real_file_io().sync(file);
  }
  Result<> make_directory(const File& directory, const std::string& name, mode_t mode) override {
    CODECFS_TRY(next("make_directory"));
    return real_file_io().make_directory(directory, name, mode);
  }
  Result<> rename(const File& directory, const std::string& from, const std::string& to) override {
    CODECFS_TRY(next("rename"));
    return real_file_io().rename(directory, from, to);
  }
  Result<> unlink(const File& directory, const std::string& name) override {
    CODECFS_TRY(next("unlink"));
    return real_file_io().unlink(directory, name);
  }
  Result<> move(const File& from_directory, const std::string& from, const File& to_directory,
                const std::string& to) override {
    CODECFS_TRY(next("move"));
    return real_file_io().move(from_directory, from, to_directory, to);
  }
  Result<> exchange(const File& directory, const std::string& one, const std::string& other) override {
    CODECFS_TRY(next("exchange"));
    return real_file_io().exchange(directory, one, other);
  }
  Result<> remove_directory(const File& directory, const std::string& name) override {
    CODECFS_TRY(next("remove_directory"));
    return real_file_io().remove_directory(directory, name);
  }

  Result<> sync_filesystem(const File&) override {
    ++filesystem_syncs;
    return {};
  }
  std::atomic<int> filesystem_syncs = 0;

  /// Makes a call fail, counted from 0 from now on.
  void fail_at(int call, int code) {
    calls_.clear();
    at_ = call;
    code_ = code;
  }
  std::vector<std::string> take_calls() { return std::exchange(calls_, {}); }

 private:
  Result<> next(const std::string& what) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(what);
    if (static_cast<int>(calls_.size()) - 1 == at_) return fail_errno(code_, "{}", what);
    return {};
  }

  std::mutex mutex_;
  std::vector<std::string> calls_;
  int at_ = -1;
  int code_ = 0;
};

struct Layout {
  std::string shape = "[4]";
  std::string chunks = "[2]";
  std::string dtype = "\"<i4\"";
  std::string order = "C";
  std::string separator = ".";
  std::string compressor = "null";
  std::string filters = "null";
};

std::string zarray(const Layout& layout) {
  return fmt::format(R"({{"zarr_format": 2, "shape": {}, "chunks": {}, "dtype": {}, "compressor": {}, "filters": {},
      "fill_value": null, "order": "{}", "dimension_separator": "{}"}})",
                     layout.shape, layout.chunks, layout.dtype, layout.compressor, layout.filters, layout.order,
                     layout.separator);
}

std::string text_of(const Buffer& buffer) { return {reinterpret_cast<const char*>(buffer.data()), buffer.size()}; }
Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

class ZarrWriteTest : public zarr_testing::StoreTest {
 protected:
  Names names_in(const std::string& key) {
    Names names;
    for (const auto& entry : files::directory_iterator(root_ / key)) names.insert(entry.path().filename());
    return names;
  }

  std::unique_ptr<Source> open(bool may_write = true) {
    auto opened = open_zarr(root_, may_write, io_);
    EXPECT_TRUE(opened) << opened.error().reason;
    return opened ? std::move(*opened) : nullptr;
  }
  Source& source() {
    if (!source_) source_ = open();
    return *source_;
  }
  ObjectId object(Source& source, const std::string& path) {
    Entry entry = source.root();
    for (const auto& part : files::path(path)) {
      auto found = source.find(entry.object, part.string());
      EXPECT_TRUE(found) << found.error().reason;
      if (found) entry = *found;
    }
    return entry.object;
  }
  ObjectId object(const std::string& path) { return object(source(), path); }

  Result<> write(const std::string& path, uint64_t number, std::string_view chunk) {
    return source().write_chunk(object(path), number, bytes_of(chunk));
  }
  void must_write(const std::string& path, uint64_t number, std::string_view chunk) {
    const auto written = write(path, number, chunk);
    EXPECT_TRUE(written) << written.error().reason;
  }
  std::string read(Source& source, const std::string& path, uint64_t number) {
    const auto chunk = source.read_chunk(object(source, path), number);
    EXPECT_TRUE(chunk) << chunk.error().reason;
    return chunk ? text_of(*chunk) : "";
  }

  FailingIo io_;
};

TEST_F(ZarrWriteTest, AChunkIsItsFile) {
  put("v/.zarray", zarray({}));
  put("v/0", "aaaabbbb");
  must_write("v", 0, "AAAABBBB");
  must_write("v", 1, "CCCCDDDD");
  EXPECT_EQ(get("v/0"), "AAAABBBB");
  EXPECT_EQ(get("v/1"), "CCCCDDDD");
  EXPECT_TRUE(source().commit());
  EXPECT_TRUE(source().finish());
  EXPECT_EQ(names_in("v"), (Names{".zarray", "0", "1"}));
  EXPECT_EQ(source().locate(object("v"), 1)->stored_size, 8U);
}

TEST_F(ZarrWriteTest, FilesAreSyncedBeforeTheirNamesAndDirectoriesAtTheCommit) {
  put("v/.zarray", zarray({.shape = "[4, 4]", .chunks = "[2, 2]", .separator = "/"}));
  source();
  io_.take_calls();
  must_write("v", 3, std::string(16, 'x'));
  const std::string file = fmt::format("sync v/1/.1.codecfs-{}-0", ::getpid());
  EXPECT_EQ(io_.take_calls(), (std::vector<std::string>{"make_directory", "create", "write", file, "rename"}));
  must_write("v", 2, std::string(16, 'x'));
  io_.take_calls();
  EXPECT_TRUE(source().commit());
  EXPECT_EQ(io_.take_calls(), (std::vector<std::string>{"sync v", "sync v/1"}));
  EXPECT_TRUE(source().commit());
  EXPECT_TRUE(io_.take_calls().empty());
  EXPECT_TRUE(source().remove_chunk(object("v"), 3));
  EXPECT_EQ(io_.take_calls(), (std::vector<std::string>{"unlink"}));
  EXPECT_TRUE(source().finish());
  EXPECT_EQ(io_.take_calls(), (std::vector<std::string>{"sync v", "sync v/1"}));
}

TEST_F(ZarrWriteTest, WhatAKilledProgramLeftIsSyncedOnce) {
  put("v/.zarray", zarray({}));
  EXPECT_TRUE(source().commit());  // a program requests it, and this mount has written nothing
  EXPECT_EQ(io_.filesystem_syncs, 1);
  must_write("v", 0, "aaaabbbb");
  EXPECT_TRUE(source().commit());
  EXPECT_TRUE(source().finish());
  EXPECT_EQ(io_.filesystem_syncs, 1);

  source_ = open();  // written, and ended without a commit
  must_write("v", 0, "bbbbaaaa");
  EXPECT_EQ(io_.filesystem_syncs, 1);
  EXPECT_TRUE(source().finish());
  EXPECT_EQ(io_.filesystem_syncs, 2);

  source_ = open();  // not written
  EXPECT_TRUE(source().finish());
  source_ = open(false);
  EXPECT_TRUE(source().commit());
  EXPECT_EQ(io_.filesystem_syncs, 2);
}

TEST_F(ZarrWriteTest, EveryLayoutReadsBackAsItWasWritten) {
  const std::string zlib = R"({"id": "zlib", "level": 1})";
  const std::string blosc = R"({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0})";
  struct Case {
    std::string name;
    Layout layout;
    size_t chunk_bytes;
  };
  std::vector<Case> cases;
  for (const char* order : {"C", "F"})
    for (const char* separator : {".", "/"})
      for (const std::string& compressor :
           {std::string("null"), zlib, blosc, std::string(R"({"id": "zstd", "level": 1})"),
            std::string(R"({"id": "lz4", "acceleration": 1})"), std::string(R"({"id": "bz2", "level": 1})"),
            std::string(R"({"id": "gzip", "level": 1})")})
        for (const auto& [dtype, size] : {std::pair{"\"<i4\"", 4},
                                          {"\">f8\"", 8},
                                          {"\"|u1\"", 1},
                                          {"\"|S3\"", 3},
                                          {"\"<U2\"", 8},
                                          {R"([["a", "<i2"], ["b", ">f8"]])", 10}})
          for (const std::string& filters :
               {std::string("null"), fmt::format(R"([{{"id": "shuffle", "elementsize": {}}}])", size)}) {
            Layout layout{"[7, 5, 3]", "[4, 3, 2]", dtype, order, separator, compressor, filters};
            cases.push_back({fmt::format("v{}", cases.size()), layout, static_cast<size_t>(size) * 24});
            put(cases.back().name + "/.zarray", zarray(layout));
          }
  std::mt19937 random(1);
  std::vector<std::string> written;
  for (size_t i = 0; i < cases.size(); ++i) {
    std::string chunk(cases[i].chunk_bytes, '\0');
    for (char& c : chunk) c = static_cast<char>(random() % 7);
    SCOPED_TRACE(zarray(cases[i].layout));
    for (const uint64_t number : {0U, 5U, 7U}) must_write(cases[i].name, number, chunk);
    EXPECT_EQ(*source().stored_chunks(object(cases[i].name), 0, 100), (Numbers{0, 5, 7}));
    written.push_back(chunk);
  }
  ASSERT_TRUE(source().finish());
  const auto again = open(false);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(zarray(cases[i].layout));
    for (const uint64_t number : {0U, 5U, 7U}) EXPECT_EQ(read(*again, cases[i].name, number), written[i]);
  }
}

TEST_F(ZarrWriteTest, TheBytesAreThoseOfTheFormat) {
  put("f/.zarray", zarray({.shape = "[2, 3]", .chunks = "[2, 3]", .dtype = "\"|u1\"", .order = "F"}));
  must_write("f", 0, "abcdef");
  EXPECT_EQ(get("f/0.0"), "adbecf");
  put("z/.zarray", zarray({.shape = "[1000]",
                           .chunks = "[1000]",
                           .dtype = "\"<i2\"",
                           .compressor = R"({"id": "zlib", "level": 9})",
                           .filters = R"([{"id": "delta", "dtype": "<i2"}])"}));
  std::string ramp(2000, '\0');
  for (uint16_t i = 0; i < 1000; ++i) store_le(reinterpret_cast<std::byte*>(ramp.data()) + 2 * i, i);
  must_write("z", 0, ramp);
  const std::string packed = get("z/0");
  std::string unpacked(2000, 'x');
  uLongf size = unpacked.size();
  ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(unpacked.data()), &size, reinterpret_cast<const Bytef*>(packed.data()),
                       packed.size()),
            Z_OK);
  std::string steps("\0\0", 2);
  for (int i = 1; i < 1000; ++i) steps.append("\1\0", 2);
  EXPECT_EQ(unpacked, steps);
  put("s/.zarray", zarray({.shape = "[]", .chunks = "[]", .separator = "/"}));
  must_write("s", 0, "abcd");
  EXPECT_EQ(get("s/0"), "abcd");
  // Elements that grow more than incompressible data does.
  put("a/.zarray", zarray({.shape = "[60000]",
                           .chunks = "[60000]",
                           .dtype = "\"|i1\"",
                           .filters = R"([{"id": "astype", "encode_dtype": "<f8", "decode_dtype": "|i1"}])"}));
  must_write("a", 0, std::string(60000, '\3'));
  EXPECT_EQ(get("a/0").size(), 480000U);
  EXPECT_EQ(read(source(), "a", 0), std::string(60000, '\3'));
}

std::string items(const std::vector<std::string>& texts) {
  std::string chunk(4, '\0');
  store_le(reinterpret_cast<std::byte*>(chunk.data()), static_cast<uint32_t>(texts.size()));
  for (const std::string& text : texts) {
    std::string length(4, '\0');
    store_le(reinterpret_cast<std::byte*>(length.data()), static_cast<uint32_t>(text.size()));
    chunk += length + text;
  }
  return chunk;
}

TEST_F(ZarrWriteTest, TextsOfAnyLength) {
  Layout layout{.shape = "[2, 3]", .chunks = "[2, 3]", .dtype = "\"|O\"", .filters = R"([{"id": "vlen-utf8"}])"};
  put("c/.zarray", zarray(layout));
  layout.compressor = R"({"id": "zlib", "level": 1})";
  put("z/.zarray", zarray(layout));
  layout.compressor = "null";
  layout.order = "F";
  put("f/.zarray", zarray(layout));
  const std::string chunk = items({"a", "bb", "", std::string("n\0l", 3), "é", "ffffff"});
  for (const char* name : {"c", "z", "f"}) {
    must_write(name, 0, chunk);
    EXPECT_EQ(read(source(), name, 0), chunk);
  }
  EXPECT_EQ(get("c/0.0"), chunk);
  EXPECT_EQ(get("f/0.0"), items({"a", std::string("n\0l", 3), "bb", "é", "", "ffffff"}));
  for (const char* name : {"c", "f"})
    for (const std::string& bad :
         {std::string(), std::string("abc"), items({"a"}), chunk + "x", chunk.substr(0, chunk.size() - 1)}) {
      const auto written = write(name, 0, bad);
      ASSERT_FALSE(written);
      EXPECT_EQ(written.error().code, EINVAL);
      EXPECT_NE(written.error().reason.find(std::string(name) + "/0.0: "), std::string::npos);
      EXPECT_EQ(read(source(), name, 0), chunk);
    }
}

TEST_F(ZarrWriteTest, WhatIsNotToBeWrittenSaysWhy) {
  put("v/.zarray", zarray({}));
  put("v/0", "aaaabbbb");
  EXPECT_EQ(write("v", 0, "short").error().code, EINVAL);
  EXPECT_EQ(write("v", 2, "aaaabbbb").error().code, EINVAL);
  EXPECT_EQ(source().remove_chunk(object("v"), 2).error().code, EINVAL);
  EXPECT_EQ(source().write_chunk(source().root().object, 0, {}).error().code, ENOENT);
  EXPECT_TRUE(source().variable_writable(object("v")));

  put("unknown/.zarray", zarray({.compressor = R"({"id": "unknown-codec"})"}));
  put("unknown/0", "x");
  put("narrow/.zarray", zarray({.shape = "[20]", .chunks = "[10]", .dtype = "\"<U1\""}));
  put("narrow/0", "abcdefghij");
  put("narrow_later/.zarray", zarray({.shape = "[20]", .chunks = "[10]", .dtype = "\"<U1\""}));
  put("narrow_later/1", "abcdefghij");
  put("items/.zarray", zarray({.shape = "[2, 2]",
                               .chunks = "[2, 2]",
                               .dtype = "\"|O\"",
                               .order = "F",
                               .filters = R"([{"id": "pickle"}])"}));
  put("huge/.zarray", zarray({.shape = "[999999999]", .chunks = "[999999999]"}));
  const auto refused = [&](const char* name, int code, const char* part) {
    const ObjectId id = object(name);
    const auto writable = source().variable_writable(id);
    ASSERT_FALSE(writable) << name;
    EXPECT_EQ(writable.error().code, code) << name;
    EXPECT_NE(writable.error().reason.find(part), std::string::npos) << writable.error().reason;
    EXPECT_EQ(source().write_chunk(id, 0, bytes_of("abcdefghij")).error().reason, writable.error().reason);
    EXPECT_EQ(source().remove_chunk(id, 0).error().reason, writable.error().reason);
  };
  refused("unknown", EIO, "unknown-codec");
  refused("narrow", EOPNOTSUPP, "only read");
  refused("narrow_later", EOPNOTSUPP, "only read");
  refused("items", EOPNOTSUPP, "pickle");
  refused("huge", EOPNOTSUPP, "limit");
  EXPECT_EQ(read(source(), "narrow_later", 1), "abcdefghij");

  put("wide/.zarray", zarray({.shape = "[4]", .chunks = "[2]", .dtype = "\"<U1\""}));
  must_write("wide", 1, std::string("a\0\0\0b\0\0\0", 8));
  EXPECT_EQ(get("wide/1").size(), 8U);
}

TEST_F(ZarrWriteTest, AStoreOpenedToBeReadIsNotWritten) {
  put("v/.zarray", zarray({}));
  put("v/.0.codecfs-1-1", "left");
  source_ = open(false);
  EXPECT_EQ(source().writable().error().code, EROFS);
  EXPECT_NE(source().writable().error().reason.find("opened only to be read"), std::string::npos);
  EXPECT_EQ(source().variable_writable(object("v")).error().code, EROFS);
  EXPECT_EQ(write("v", 0, "aaaabbbb").error().code, EROFS);
  EXPECT_EQ(source().remove_chunk(object("v"), 0).error().code, EROFS);
  EXPECT_TRUE(source().commit());
  EXPECT_TRUE(source().finish());
  EXPECT_EQ(names_in("v"), (Names{".zarray", ".0.codecfs-1-1"}));
  EXPECT_TRUE(io_.take_calls().empty());
}

TEST_F(ZarrWriteTest, DirectoriesWithoutPermission) {
  put("v/.zarray", zarray({}));
  put("w/.zarray", zarray({}));
  files::permissions(root_, static_cast<files::perms>(0755));
  files::permissions(root_ / "v", static_cast<files::perms>(0555));
  files::permissions(root_ / "w", static_cast<files::perms>(0777));
  const bool is_root = ::geteuid() == 0;
  if (is_root) {
    ASSERT_EQ(::seteuid(65534), 0);
    if (::faccessat(AT_FDCWD, root_.c_str(), X_OK, AT_EACCESS) != 0) {
      ASSERT_EQ(::seteuid(0), 0);
      GTEST_SKIP() << "only root can access " << root_;
    }
    EXPECT_NE(open()->writable().error().reason.find("cannot be written: Permission denied"), std::string::npos);
    EXPECT_EQ(open()->writable().error().code, EROFS);
    ASSERT_EQ(::seteuid(0), 0);
    files::permissions(root_, static_cast<files::perms>(0777));
    ASSERT_EQ(::seteuid(65534), 0);
  }
  EXPECT_TRUE(source().writable());
  EXPECT_EQ(source().variable_writable(object("v")).error().code, EROFS);
  EXPECT_NE(source().variable_writable(object("v")).error().reason.find("v: cannot be written"), std::string::npos);
  must_write("w", 0, "aaaabbbb");
  if (is_root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  files::permissions(root_ / "v", static_cast<files::perms>(0755));
}

TEST_F(ZarrWriteTest, OneWriterAtATime) {
  put("v/.zarray", zarray({}));
  auto other = open();
  source();
  const auto busy = write("v", 0, "aaaabbbb");  // another program is reading
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, EBUSY);
  EXPECT_NE(busy.error().reason.find("open in another codecfs"), std::string::npos);
  EXPECT_EQ(names_in("v"), Names{".zarray"});

  other.reset();
  must_write("v", 0, "aaaabbbb");
  other = open();  // reading continues beside a writer
  EXPECT_EQ(read(*other, "v", 0), "aaaabbbb");
  EXPECT_EQ(other->write_chunk(object(*other, "v"), 1, bytes_of("ccccdddd")).error().code, EBUSY);
  EXPECT_EQ(other->remove_chunk(object(*other, "v"), 0).error().code, EBUSY);
  must_write("v", 1, "eeeeffff");

  EXPECT_TRUE(source().finish());
  source_.reset();
  EXPECT_TRUE(other->write_chunk(object(*other, "v"), 1, bytes_of("ccccdddd")));
  const int fd = ::open(root_.c_str(), O_RDONLY | O_DIRECTORY);
  EXPECT_NE(::flock(fd, LOCK_SH | LOCK_NB), 0);
  EXPECT_TRUE(other->finish());
  EXPECT_EQ(::flock(fd, LOCK_SH | LOCK_NB), 0);
  ::close(fd);
}

TEST_F(ZarrWriteTest, LeftoversAreNotShownAndRemovedByTheNextWriter) {
  put("v/.zarray", zarray({.shape = "[8, 2]", .chunks = "[2, 2]"}));
  put("n/.zarray", zarray({.shape = "[8, 2]", .chunks = "[2, 2]", .separator = "/"}));
  const std::string own = fmt::format(".0.codecfs-{}-0", ::getpid());  // of an earlier process with our id
  const Names others = {".0.0.codecfs-1-",   ".codecfs-1-1", "0.0.codecfs-1-1", ".0.0.codecfs-x-1",
                        ".0.0.codecfs-1-1x", ".nfs0001",     ".hidden"};
  for (const std::string& name : others) put("v/" + name, "x");
  for (const char* name :
       {"v/.0.0.codecfs-1-1", "v/.3.0.codecfs-99999-123456", "n/0/.0.codecfs-1-1", "n/1/.0.codecfs-1-1"})
    put(name, "x");
  put("n/0/" + own, "x");
  files::create_directory(root_ / "v/.1.0.codecfs-1-1");
  EXPECT_TRUE(source().stored_chunks(object("v"), 0, 10)->empty());
  EXPECT_TRUE(source().stored_chunks(object("n"), 0, 10)->empty());
  EXPECT_EQ(names_in("v").size(), others.size() + 4);

  must_write("v", 1, std::string(16, 'x'));
  Names left = others;
  left.insert({".zarray", "1.0"});
  EXPECT_EQ(names_in("v"), left);
  must_write("n", 0, std::string(16, 'x'));
  EXPECT_EQ(names_in("n/0"), Names{"0"});
  EXPECT_EQ(names_in("n/1"), Names{".0.codecfs-1-1"});
  EXPECT_TRUE(source().remove_chunk(object("n"), 1));
  EXPECT_EQ(*source().stored_chunks(object("n"), 0, 10), Numbers{0});
}

TEST_F(ZarrWriteTest, ModesAreThoseOfTheArray) {
  put("v/.zarray", zarray({.shape = "[4, 4]", .chunks = "[2, 2]", .separator = "/"}));
  files::permissions(root_ / "v/.zarray", static_cast<files::perms>(0764));
  files::permissions(root_ / "v", static_cast<files::perms>(0775));
  const mode_t mask = ::umask(077);
  must_write("v", 0, std::string(16, 'x'));
  ::umask(mask);
  EXPECT_EQ(files::status(root_ / "v/0/0").permissions(), static_cast<files::perms>(0664));
  EXPECT_EQ(files::status(root_ / "v/0").permissions(), static_cast<files::perms>(0775));
}

TEST_F(ZarrWriteTest, Removal) {
  put("v/.zarray", zarray({.shape = "[4, 4]", .chunks = "[2, 2]"}));
  put("n/.zarray", zarray({.shape = "[4, 4]", .chunks = "[2, 2]", .separator = "/"}));
  put("v/0.0", "x");
  put("n/0/1", "x");
  files::create_directory(root_ / "v/0.1");
  for (const char* name : {"v", "n"})
    for (uint64_t number = 0; number < 4; ++number) EXPECT_TRUE(source().remove_chunk(object(name), number)) << number;
  EXPECT_EQ(names_in("v"), (Names{".zarray", "0.1"}));
  EXPECT_EQ(names_in("n"), (Names{".zarray", "0"}));
  EXPECT_TRUE(names_in("n/0").empty());
  EXPECT_EQ(source().read_chunk(object("v"), 0).error().code, ENOENT);
  EXPECT_FALSE(source().locate(object("n"), 1)->stored);
}

TEST_F(ZarrWriteTest, LinksAreReplacedAndTheirTargetsKept) {
  put("v/.zarray", zarray({}));
  put("elsewhere", "aaaabbbb");
  files::create_symlink("../elsewhere", root_ / "v/0");
  files::create_hard_link(root_ / "elsewhere", root_ / "v/1");
  EXPECT_EQ(read(source(), "v", 0), "aaaabbbb");
  must_write("v", 0, "AAAABBBB");
  must_write("v", 1, "AAAABBBB");
  EXPECT_EQ(get("elsewhere"), "aaaabbbb");
  EXPECT_TRUE(files::is_regular_file(files::symlink_status(root_ / "v/0")));
  EXPECT_EQ(read(source(), "v", 0), "AAAABBBB");
}

TEST_F(ZarrWriteTest, ListingsFollowEveryChange) {
  put("v/.zarray", zarray({.shape = "[300]", .chunks = "[1]", .dtype = "\"|u1\""}));
  put("n/.zarray", zarray({.shape = "[300]", .chunks = "[1]", .dtype = "\"|u1\"", .separator = "/"}));
  std::mt19937 random(1);
  for (const char* name : {"v", "n"}) {
    std::set<uint64_t> model;
    const ObjectId id = object(name);
    for (int step = 0; step < 1500; ++step) {
      const uint64_t number = random() % 300;
      if (random() % 3 != 0) {
        must_write(name, number, "x");
        model.insert(number);
      } else {
        EXPECT_TRUE(source().remove_chunk(id, number));
        model.erase(number);
      }
      const uint64_t from = random() % 4 == 0 ? 0 : random() % 300;
      const size_t limit = 1 + random() % 50;
      Numbers expected(model.lower_bound(from), model.end());
      expected.resize(std::min(limit, expected.size()));
      ASSERT_EQ(*source().stored_chunks(id, from, limit), expected) << name << " step " << step << " from " << from;
    }
  }
}

TEST_F(ZarrWriteTest, ConsolidatedMetadataStaysAsItIs) {
  put("v/.zarray", zarray({}));
  put(".zmetadata", "as it was");
  const auto before = files::last_write_time(root_ / ".zmetadata");
  must_write("v", 0, "aaaabbbb");
  EXPECT_TRUE(source().finish());
  EXPECT_EQ(get(".zmetadata"), "as it was");
  EXPECT_EQ(files::last_write_time(root_ / ".zmetadata"), before);
}

TEST_F(ZarrWriteTest, AFailureAnywhereLeavesTheOldChunk) {
  put("v/.zarray", zarray({}));
  put("n/.zarray", zarray({.shape = "[4, 4, 4]", .chunks = "[2, 2, 2]", .separator = "/"}));
  put("v/0", "aaaabbbb");
  int failures = 0;
  for (const int code : {ENOSPC, EIO}) {
    for (int call = 0;; ++call) {
      source_.reset();
      put("v/.0.codecfs-1-1", "left by another process");
      io_.fail_at(call, code);
      const auto written = write("v", 0, "AAAABBBB");
      if (io_.take_calls().size() <= static_cast<size_t>(call)) {
        EXPECT_TRUE(written);
        break;
      }
      if (written) {  // only a leftover could not be removed
        put("v/0", "aaaabbbb");
        continue;
      }
      ++failures;
      EXPECT_EQ(written.error().code, code);
      EXPECT_NE(written.error().reason.find("v/0 was not stored: "), std::string::npos) << written.error().reason;
      EXPECT_NE(written.error().reason.find(std::strerror(code)), std::string::npos) << written.error().reason;
      EXPECT_EQ(get("v/0"), "aaaabbbb");
      EXPECT_EQ(names_in("v"), (Names{".zarray", "0"}));
      io_.fail_at(-1, 0);
      EXPECT_TRUE(write("v", 0, "ccccdddd"));
      EXPECT_TRUE(source().commit());
      put("v/0", "aaaabbbb");
    }
    put("v/0", "aaaabbbb");
    for (int call = 0;; ++call) {  // a chunk in new directories
      source_.reset();
      files::remove_all(root_ / "n/1");
      io_.fail_at(call, code);
      const auto written = write("n", 7, std::string(32, 'x'));
      const bool was_last = io_.take_calls().size() <= static_cast<size_t>(call);
      EXPECT_EQ(bool(written), was_last);
      if (was_last) break;
      ++failures;
      EXPECT_EQ(source().read_chunk(object("n"), 7).error().code, ENOENT);
      EXPECT_TRUE(source().stored_chunks(object("n"), 0, 10)->empty());
      for (const auto& entry : files::recursive_directory_iterator(root_ / "n"))
        EXPECT_FALSE(zarr::is_temporary_name(entry.path().filename().string())) << entry.path();
    }
    files::remove_all(root_ / "n/1");
  }
  EXPECT_EQ(failures, 2 * (4 + 6));
}

TEST_F(ZarrWriteTest, AFailedCommitIsRepeated) {
  put("v/.zarray", zarray({}));
  put("w/.zarray", zarray({}));
  must_write("v", 0, "aaaabbbb");
  must_write("w", 0, "aaaabbbb");
  io_.fail_at(0, EIO);
  const auto failed = source().commit();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, EIO);
  EXPECT_EQ(io_.take_calls(), (std::vector<std::string>{"sync v", "sync w"}));
  io_.fail_at(-1, 0);
  EXPECT_TRUE(source().commit());
  EXPECT_EQ(io_.take_calls(), (std::vector<std::string>{"sync v"}));
  // Filesystems that cannot sync a directory say EINVAL; an array that another program deletes needs no sync.
  must_write("v", 0, "aaaabbbb");
  io_.fail_at(0, EINVAL);
  EXPECT_TRUE(source().commit());
  io_.fail_at(-1, 0);
  must_write("v", 0, "aaaabbbb");
  files::remove_all(root_ / "v");
  EXPECT_TRUE(source().commit());
}

TEST_F(ZarrWriteTest, ManyThreads) {
  constexpr uint64_t kChunks = 40;
  for (const char* separator : {".", "/"})
    put(std::string(*separator == '.' ? "flat" : "nested") + "/.zarray",
        zarray({.shape = "[40, 1024]",
                .chunks = "[1, 1024]",
                .dtype = "\"|u1\"",
                .separator = separator,
                .compressor = R"({"id": "zlib", "level": 1})"}));
  put("flat/.0.codecfs-1-1", "x");
  const ObjectId ids[] = {object("flat"), object("nested")};
  std::atomic<bool> is_over = false;
  std::atomic<int> bad = 0;
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t)
    writers.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int step = 0; step < 100; ++step) {
        const ObjectId id = ids[random() % 2];
        const uint64_t number = random() % 3 == 0 ? 0 : random() % kChunks;  // one of them more often
        const std::string chunk(1024, static_cast<char>('a' + random() % 26));
        if (random() % 8 == 0 ? !source_->remove_chunk(id, number) : !source_->write_chunk(id, number, bytes_of(chunk)))
          ++bad;
        if (random() % 20 == 0 && !source_->commit()) ++bad;
      }
    });
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t)
    readers.emplace_back([&, t] {
      while (!is_over) {
        for (uint64_t number = 0; number < kChunks; ++number) {
          const auto chunk = source_->read_chunk(ids[t], number);
          if (!chunk && chunk.error().code != ENOENT) ++bad;
          if (chunk && text_of(*chunk) != std::string(1024, static_cast<char>(chunk->data()[0]))) ++bad;
        }
        if (!source_->stored_chunks(ids[t], 0, 10)) ++bad;
        if (!source_->stored_chunks(ids[t], 10, 1000)) ++bad;
      }
    });
  for (auto& thread : writers) thread.join();
  is_over = true;
  for (auto& thread : readers) thread.join();
  EXPECT_EQ(bad, 0);
  EXPECT_TRUE(source().finish());
  for (const ObjectId id : ids) {
    Numbers there;
    for (uint64_t number = 0; number < kChunks; ++number)
      if (source().locate(id, number)->stored) there.push_back(number);
    EXPECT_EQ(*source().stored_chunks(id, 0, 1000), there);
  }
  for (const auto& entry : files::recursive_directory_iterator(root_))
    EXPECT_FALSE(zarr::is_temporary_name(entry.path().filename().string())) << entry.path();
}

TEST(TemporaryName, IsToldFromOthers) {
  EXPECT_TRUE(zarr::is_temporary_name(".0.1.codecfs-4711-12"));
  EXPECT_TRUE(zarr::is_temporary_name(".0.codecfs-1-0"));
  for (const char* name : {"", ".", "0.1", ".zarray", ".codecfs-1-1", "0.codecfs-1-1", ".0.codecfs-1", ".0.codecfs--1",
                           ".0.codecfs-1-", ".0.codecfs-1-2-3", ".0.codecfs-wal"})
    EXPECT_FALSE(zarr::is_temporary_name(name)) << name;
}

}  // namespace
}  // namespace codecfs
