// Zarr directories made by hand, read through the Source interface, and the recognition of sources.

#include "backends/zarr/source/zarr_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>
#include <algorithm>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <thread>

#include "backends/api/names.h"
#include "backends/open/source_opener.h"
#include "base/endian.h"
#include "support/zarr_testing.h"

namespace codecfs {
namespace {

namespace files = std::filesystem;

constexpr const char* kGroup = R"({"zarr_format": 2})";

std::string zarray(const char* shape, const char* chunks, const char* dtype, const char* rest = "") {
  return fmt::format(R"({{"zarr_format": 2, "shape": {}, "chunks": {}, "dtype": {}, "compressor": null, "filters": null,
      "fill_value": null, "order": "C"{}}})",
                     shape, chunks, dtype, rest);
}

class ZarrSourceTest : public zarr_testing::StoreTest {
 protected:
  Source& source() {
    if (!source_) {
      auto opened = open_zarr(root_);
      EXPECT_TRUE(opened) << opened.error().reason;
      source_ = std::move(*opened);
    }
    return *source_;
  }

  Entry find(const std::string& path) {
    Entry entry = source().root();
    for (const auto& part : files::path(path)) {
      auto found = source().find(entry.object, part.string());
      EXPECT_TRUE(found) << found.error().reason;
      if (!found) return {};
      entry = *found;
    }
    return entry;
  }

  /// "name:group" and similar.
  std::vector<std::string> list(ObjectId group) {
    auto entries = source().list(group);
    EXPECT_TRUE(entries) << entries.error().reason;
    std::vector<std::string> names;
    for (const Entry& entry : *entries)
      names.push_back(entry.name + (entry.kind == EntryKind::group ? ":group" : ":variable"));
    return names;
  }

  std::string chunk(const std::string& path, uint64_t number) {
    auto bytes = source().read_chunk(find(path).object, number);
    EXPECT_TRUE(bytes) << bytes.error().reason;
    return bytes ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : "";
  }

  Error chunk_error(const std::string& path, uint64_t number) {
    auto bytes = source().read_chunk(find(path).object, number);
    EXPECT_FALSE(bytes);
    return bytes ? Error{0, ""} : bytes.error();
  }
};

using Names = std::vector<std::string>;

TEST_F(ZarrSourceTest, ListsGroupsAndArraysByName) {
  put("b/.zarray", zarray("[4]", "[2]", "\"<i4\""));
  put("a/.zgroup", kGroup);
  put("a/deep/.zgroup", kGroup);
  put("a/deep/x/.zarray", zarray("[4]", "[2]", "\"<i4\""));
  put("both/.zgroup", kGroup);
  put("both/.zarray", zarray("[4]", "[2]", "\"<i4\""));
  put("v480/.nczgroup", "{}");
  put("neither/file", "x");
  put("file", "x");
  put("温度/.zarray", zarray("[4]", "[2]", "\"<i4\""));
  put("50%ab/.zgroup", kGroup);
  put("50%2Fab/.zgroup", kGroup);
  put("bad\xFF/.zgroup", kGroup);
  put(".hidden/.zgroup", kGroup);
  EXPECT_EQ(source().root().kind, EntryKind::group);
  EXPECT_EQ(list(source().root().object),
            (Names{".hidden:group", "50%252Fab:group", "50%ab:group", "a:group", "b:variable", "bad%FF:group",
                   "both:variable", "v480:group", "温度:variable"}));
  EXPECT_EQ(list(find("a/deep").object), Names{"x:variable"});
  EXPECT_EQ(find("50%ab").kind, EntryKind::group);
  EXPECT_EQ(find("50%252Fab").kind, EntryKind::group);
  EXPECT_EQ(source().find(source().root().object, "50%25ab").error().code, ENOENT);
  EXPECT_EQ(find("bad%FF").kind, EntryKind::group);
  EXPECT_EQ(find("a/deep/x").kind, EntryKind::variable);
  EXPECT_EQ(find("a").object, find("a").object);
  EXPECT_NE(find("a").object, find("b").object);
}

TEST_F(ZarrSourceTest, FindsNothingElse) {
  put("a/.zgroup", kGroup);
  put("neither/file", "x");
  put("v/.zarray", zarray("[4]", "[2]", "\"<i4\""));
  const ObjectId group = find("a").object;
  for (const char* name :
       {"x", "neither", ".", "..", "%2E", "%2E.", "%2E%2E", "%~", "", "a%2Fdeep", "%2E.%2Fa", ".zgroup", "%00"}) {
    EXPECT_EQ(source().find(source().root().object, name).error().code, ENOENT) << name;
    EXPECT_EQ(source().find(group, name).error().code, ENOENT) << name;
  }
  EXPECT_EQ(source().find(12345, "x").error().code, ENOENT);
  EXPECT_EQ(source().find(find("v").object, "x").error().code, ENOTDIR);
  EXPECT_EQ(source().list(find("v").object).error().code, ENOTDIR);
  EXPECT_EQ(source().variable(group).error().code, ENOENT);
  EXPECT_EQ(source().read_chunk(group, 0).error().code, ESTALE) << "ENOENT would be a chunk that is not stored";
}

TEST_F(ZarrSourceTest, NamesThatHadToBeCutAreFoundBySearch) {
  std::string raw(200, '\xFF');  // 600 bytes when escaped
  put(raw + "/.zgroup", kGroup);
  put("other/.zgroup", kGroup);
  const Names names = list(source().root().object);
  ASSERT_EQ(names.size(), 2U);
  const std::string cut = escape_name(raw);
  ASSERT_TRUE(is_cut_name(cut));
  EXPECT_EQ(names[0], cut + ":group");
  EXPECT_EQ(find(cut).kind, EntryKind::group);
  std::string wrong = cut;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  EXPECT_EQ(source().find(source().root().object, wrong).error().code, ENOENT);
}

TEST_F(ZarrSourceTest, ReadsLocatesAndListsChunks) {
  put("v/.zarray", zarray("[5, 4]", "[2, 2]", "\"<i2\""));
  put("v/.zattrs", R"({"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"})");
  put("v/0.0", "abcdefgh");
  put("v/2.1", "ABCDEFGH");
  for (const char* junk : {"0.2", "3.0", "00.0", "0.0.tmp", "README", "0", "0.0.0"})
    put(std::string("v/") + junk, "junk");
  files::create_directory(root_ / "v/1.1");
  const Entry entry = find("v");
  const auto variable = source().variable(entry.object);
  ASSERT_TRUE(variable);
  EXPECT_EQ((*variable)->dimensions, (Names{"y", "x"}));
  EXPECT_EQ((*variable)->attributes.size(), 1U);
  EXPECT_EQ(chunk("v", 0), "abcdefgh");
  EXPECT_EQ(chunk("v", 5), "ABCDEFGH");
  EXPECT_EQ(chunk_error("v", 1).code, ENOENT);
  EXPECT_EQ(chunk_error("v", 3).code, ENOENT);  // a directory
  EXPECT_EQ(chunk_error("v", 6).code, ENOENT);  // not in the grid
  EXPECT_EQ(*source().stored_chunks(entry.object, 0, 100), (std::vector<uint64_t>{0, 5}));
  EXPECT_EQ(*source().stored_chunks(entry.object, 0, 1), (std::vector<uint64_t>{0}));
  EXPECT_EQ(*source().stored_chunks(entry.object, 1, 1), (std::vector<uint64_t>{5}));
  EXPECT_TRUE(source().stored_chunks(entry.object, 6, 1)->empty());
  const auto info = source().locate(entry.object, 5);
  ASSERT_TRUE(info);
  EXPECT_TRUE(info->stored);
  EXPECT_EQ(info->stored_size, 8U);
  EXPECT_EQ(info->offset, 0U);
  EXPECT_FALSE(source().locate(entry.object, 1)->stored);
  EXPECT_FALSE(source().locate(entry.object, 3)->stored);
  EXPECT_EQ(source().locate(entry.object, 6).error().code, ENOENT);
}

TEST_F(ZarrSourceTest, NestedChunks) {
  put("v/.zarray", zarray("[30, 4, 2]", "[2, 2, 2]", "\"|u1\"", R"(, "dimension_separator": "/")"));
  put("v/0/0/0", "abcdefgh");
  put("v/14/1/0", "ABCDEFGH");
  for (const char* junk : {"v/15/0/0", "v/00/0/0", "v/1/0/0.tmp", "v/2/2/0", "v/x/0/0", "v/-0/0/0", "v/0/0/1"})
    put(junk, "junk");
  put("v/3", "a file where a directory should be");
  files::create_directories(root_ / "v/4/0/0");
  files::create_directory_symlink("nowhere", root_ / "v/5");
  files::create_directory_symlink("14", root_ / "v/6");
  EXPECT_EQ(chunk("v", 0), "abcdefgh");
  EXPECT_EQ(chunk("v", 29), "ABCDEFGH");
  EXPECT_EQ(chunk("v", 13), "ABCDEFGH");  // through the link
  EXPECT_EQ(*source().stored_chunks(find("v").object, 0, 100), (std::vector<uint64_t>{0, 13, 29}));
  EXPECT_EQ(chunk_error("v", 6).code, ENOENT);
}

TEST_F(ZarrSourceTest, AChunkIsAbsentOnlyWhileItsArrayIsThere) {
  for (const char* const removed : {"v/.zarray", "v", ""}) {
    put(".zgroup", kGroup);
    put("v/.zarray", zarray("[4]", "[2]", "\"|u1\""));
    put("v/0", "ab");
    source_.reset();
    const ObjectId v = find("v").object;
    EXPECT_EQ(chunk("v", 0), "ab");
    EXPECT_EQ(source().fetch_chunk(v, 1).error().code, ENOENT);
    EXPECT_FALSE(source().locate(v, 1)->stored);
    files::remove_all(root_ / removed);
    EXPECT_EQ(source().fetch_chunk(v, 1).error().code, ESTALE) << removed;
    EXPECT_EQ(source().locate(v, 1).error().code, ESTALE) << removed;
    if (files::exists(root_ / "v")) files::remove(root_ / "v/0");
    EXPECT_EQ(source().fetch_chunk(v, 0).error().code, ESTALE) << removed;
    EXPECT_FALSE(source().stored_chunks(v, 0, 10)) << removed;
    files::create_directory(root_);
  }
}

TEST_F(ZarrSourceTest, ALinkToAFileThatIsNotThereIsAnError) {
  put("v/.zarray", zarray("[4]", "[2]", "\"|u1\""));
  put("v/0", "ab");
  files::create_symlink("elsewhere/1", root_ / "v/1");
  const ObjectId v = find("v").object;
  EXPECT_EQ(source().locate(v, 1).error().code, EIO);
  EXPECT_NE(chunk_error("v", 1).reason.find("v/1: is a symbolic link"), std::string::npos);
  EXPECT_EQ(*source().stored_chunks(v, 0, 10), (std::vector<uint64_t>{0, 1})) << "it is not taken for absent";
  put("v/elsewhere/1", "cd");
  EXPECT_EQ(chunk("v", 1), "cd");
}

TEST_F(ZarrSourceTest, AListingSeesChangesAndSurvivesThem) {
  put("v/.zarray", zarray("[1000]", "[1]", "\"|u1\""));
  put("w/.zarray", zarray("[1000]", "[1]", "\"|u1\""));
  for (int i = 0; i < 1000; i += 2) {
    put("v/" + std::to_string(i), "x");
    put("w/" + std::to_string(i), "x");
  }
  const ObjectId v = find("v").object;
  const ObjectId w = find("w").object;
  // Two concurrent listings, in batches.
  std::vector<uint64_t> of_v;
  std::vector<uint64_t> of_w;
  for (uint64_t from = 0; from < 1000; from += 14) {
    const auto batch_of_v = source().stored_chunks(v, from, 7);
    const auto batch_of_w = source().stored_chunks(w, from, 7);
    of_v.insert(of_v.end(), batch_of_v->begin(), batch_of_v->end());
    of_w.insert(of_w.end(), batch_of_w->begin(), batch_of_w->end());
  }
  EXPECT_EQ(of_v.size(), 500U);
  EXPECT_TRUE(std::ranges::is_sorted(of_v));
  EXPECT_EQ(of_v, of_w);
  put("v/1", "x");
  EXPECT_EQ(*source().stored_chunks(v, 0, 3), (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_EQ(*source().stored_chunks(v, 1, 2), (std::vector<uint64_t>{1, 2}));
}

TEST_F(ZarrSourceTest, DecodesAndBoundsWhatItReads) {
  const std::string data(4000, 'z');
  std::string packed(compressBound(data.size()), '\0');
  uLongf size = packed.size();
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(data.data()),
                     data.size()),
            Z_OK);
  packed.resize(size);
  std::string text = zarray("[3000]", "[1000]", "\"<i4\"");
  text.replace(text.find("null"), 4, R"({"id": "zlib", "level": 1})");
  put("v/.zarray", text);
  put("v/0", packed);
  put("v/1", packed.substr(0, packed.size() - 5));
  put("v/2", "");
  EXPECT_EQ(chunk("v", 0), data);
  EXPECT_EQ(chunk_error("v", 1).code, EIO);
  EXPECT_NE(chunk_error("v", 2).reason.find("v/2: the chunk file is empty"), std::string::npos);
  EXPECT_EQ(source().locate(find("v").object, 0)->stored_size, size);

  put("raw/.zarray", zarray("[30]", "[10]", "\"<i4\""));
  put("raw/0", std::string(39, 'x'));
  put("raw/1", std::string(41, 'x'));
  put("raw/2", std::string(200000, 'x'));
  for (uint64_t number = 0; number < 3; ++number) {
    EXPECT_EQ(chunk_error("raw", number).code, EIO);
    EXPECT_NE(chunk_error("raw", number).reason.find(fmt::format("raw/{}: ", number)), std::string::npos);
  }
}

TEST_F(ZarrSourceTest, AnUnknownCodecLeavesTheRest) {
  std::string text = zarray("[30]", "[10]", "\"<i4\"");
  text.replace(text.find("null"), 4, R"({"id": "unknown-codec", "level": 1})");
  put("v/.zarray", text);
  put("v/0", "x");
  const auto variable = source().variable(find("v").object);
  ASSERT_TRUE(variable);
  ASSERT_EQ((*variable)->filters.size(), 1U);
  ASSERT_TRUE((*variable)->unreadable);
  EXPECT_EQ((*variable)->unreadable->code, EIO);
  EXPECT_NE((*variable)->unreadable->reason.find("unknown-codec"), std::string::npos);
  EXPECT_TRUE((*variable)->unreadable->reason.starts_with("v: "));
  EXPECT_TRUE(source().locate(find("v").object, 0)->stored);
  EXPECT_NE(chunk_error("v", 0).reason.find("unknown-codec"), std::string::npos);
}

TEST_F(ZarrSourceTest, FortranOrderIsTurned) {
  put("v/.zarray", [] {
    std::string text = zarray("[2, 3]", "[2, 3]", "\"|u1\"");
    return text.replace(text.find("\"C\""), 3, "\"F\"");
  }());
  put("v/0.0", "adbecf");
  EXPECT_EQ(chunk("v", 0), "abcdef");
}

TEST_F(ZarrSourceTest, CharactersOfEarlyPureZarrAreToldByTheSize) {
  put("narrow/.zarray", zarray("[10]", "[10]", "\"<U1\""));
  put("narrow/0", "abcdefghij");
  put("wide/.zarray", zarray("[10]", "[10]", "\"<U1\""));
  put("wide/0", std::string(40, '\0'));
  EXPECT_EQ(chunk("narrow", 0), "abcdefghij");
  EXPECT_EQ((*source().variable(find("narrow").object))->type.kind, TypeKind::string);
  EXPECT_EQ((*source().variable(find("wide").object))->type.kind, TypeKind::unicode);
  EXPECT_EQ(chunk("wide", 0).size(), 40U);
}

TEST_F(ZarrSourceTest, BadMetadataIsThatArraysAlone) {
  put("bad/.zarray", "{");
  put("worse/.zarray", zarray("[1]", "[1]", "\"<i4\""));
  put("worse/.zattrs", "no");
  put("good/.zarray", zarray("[1]", "[1]", "\"<i4\""));
  put("g/.zgroup", kGroup);
  put("g/.zattrs", "[]");
  EXPECT_EQ(list(source().root().object).size(), 4U);
  const auto bad = source().variable(find("bad").object);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, EIO);
  EXPECT_EQ(bad.error().reason, "bad: .zarray: JSON: expected a key in quotes at line 1 column 2, where the text ends");
  EXPECT_NE(source().variable(find("worse").object).error().reason.find("worse: .zattrs: JSON"), std::string::npos);
  EXPECT_TRUE(source().variable(find("good").object));
  EXPECT_EQ(source().group_attributes(find("g").object).error().reason, "g: .zattrs: no JSON object");
}

TEST_F(ZarrSourceTest, AnArrayMayBeTheRoot) {
  files::remove(root_ / ".zgroup");
  put(".zarray", zarray("[]", "[]", "\"<i4\""));
  put("0", "abcd");
  EXPECT_EQ(source().root().kind, EntryKind::variable);
  EXPECT_EQ(source().root().name, "");
  EXPECT_EQ(chunk("", 0), "abcd");
  EXPECT_EQ(*source().stored_chunks(source().root().object, 0, 10), std::vector<uint64_t>{0});
}

TEST_F(ZarrSourceTest, LinksAreFollowedButNotInCircles) {
  put("real/.zgroup", kGroup);
  put("real/v/.zarray", zarray("[1]", "[1]", "\"|u1\""));
  put("real/v/0", "x");
  files::create_directory_symlink("real", root_ / "alias");
  files::create_directory_symlink("..", root_ / "real/up");
  files::create_directory_symlink(".", root_ / "real/self");
  files::create_directory_symlink("itself", root_ / "itself");
  files::create_directory_symlink("nowhere", root_ / "dangling");
  EXPECT_EQ(list(source().root().object), (Names{"alias:group", "real:group"}));
  EXPECT_EQ(list(find("real").object), Names{"v:variable"});
  EXPECT_EQ(list(find("alias").object), Names{"v:variable"});
  EXPECT_EQ(chunk("alias/v", 0), "x");
  EXPECT_EQ(source().find(find("real").object, "self").error().code, ENOENT);
}

TEST_F(ZarrSourceTest, ANamedPipeDoesNotBlock) {
  put("v/.zarray", zarray("[2]", "[1]", "\"|u1\""));
  ASSERT_EQ(::mkfifo((root_ / "v/0").c_str(), 0600), 0);
  put("p/x", "");
  ASSERT_EQ(::mkfifo((root_ / "p/.zgroup").c_str(), 0600), 0);
  EXPECT_EQ(chunk_error("v", 0).code, ENOENT);
  EXPECT_FALSE(source().locate(find("v").object, 0)->stored);
  EXPECT_EQ(list(source().root().object), Names{"v:variable"});
}

TEST_F(ZarrSourceTest, ManyArraysAndThreads) {
  // More arrays than the cache holds, read from several threads at once.
  for (int i = 0; i < 300; ++i) {
    put(fmt::format("v{}/.zarray", i), zarray("[4]", "[1]", "\"<i4\""));
    for (int k = 0; k < 4; ++k) {
      std::string bytes(4, '\0');
      store_le(reinterpret_cast<std::byte*>(bytes.data()), static_cast<uint32_t>(i * 4 + k));
      put(fmt::format("v{}/{}", i, k), bytes);
    }
  }
  source();
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const int at = (i * 7 + t * 31) % 300;
        const auto entry = source_->find(source_->root().object, fmt::format("v{}", at));
        if (!entry) continue;
        const auto numbers = source_->stored_chunks(entry->object, 0, 10);
        if (!numbers || numbers->size() != 4) continue;
        const auto bytes = source_->read_chunk(entry->object, static_cast<uint64_t>(t));
        if (bytes && load_le<uint32_t>(bytes->data()) == static_cast<uint32_t>(at * 4 + t)) ++good;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 1200);
}

// Recognition -------------------------------------------------------------------------------------------------------

TEST_F(ZarrSourceTest, SourcesAreRecognisedByContentOrRefusedByName) {
  const auto reason = [&](const std::string& name) {
    const auto opened = SourceOpener().open(root_ / name);
    EXPECT_FALSE(opened) << name;
    return opened ? "" : opened.error().reason;
  };
  const auto expect = [&](std::string_view content, const char* part) {
    put("source", content);
    EXPECT_NE(reason("source").find(part), std::string::npos) << part << ": " << reason("source");
  };
  expect("CDF\001xxxx", "nccopy -k nc4");
  expect("CDF\002xxxx", "nccopy -k nc4");
  expect("CDF\005xxxx", "nccopy -k nc4");
  expect("PK\003\004xxxx", "zip archive");
  expect("GRIBxxxx", "GRIB");
  expect("\016\003\023\001xxxx", "HDF4");
  expect("\x93NUMPYxx", "NumPy");
  expect("\x1F\x8Bxxxxxx", "gunzip");
  expect("", "is empty");
  expect("x", "no HDF5 signature");
  expect("hello world", "no HDF5 signature");
  for (const char* name : {"a.tar.gz", "a.TGZ", "b.tar.2"}) {
    put(name, "\x1F\x8Bxxxxxx");
    EXPECT_NE(reason(name).find("a tar archive compressed with gzip; unpack it with: tar -xf"), std::string::npos)
        << reason(name);
  }
  EXPECT_NE(reason("missing").find("No such file or directory"), std::string::npos);
  EXPECT_EQ(SourceOpener().open(root_ / "missing").error().code, ENOENT);
  ASSERT_EQ(::mkfifo((root_ / "pipe").c_str(), 0600), 0);
  EXPECT_NE(reason("pipe").find("neither a file nor a directory"), std::string::npos);
  put("v3/zarr.json", "{}");
  EXPECT_NE(reason("v3").find("\"zarr_format\" is null, not 3"), std::string::npos);
  put("empty/file", "x");
  EXPECT_EQ((*SourceOpener().open(root_ / "empty"))->format(), "folder");
  put("half/.zmetadata", "{}");
  EXPECT_NE(reason("half").find(".zmetadata"), std::string::npos);
  put("broken/.zgroup", "{");
  EXPECT_NE(reason("broken").find(".zgroup: JSON"), std::string::npos);
  put("newer/.zgroup", R"({"zarr_format": 3})");
  EXPECT_EQ(SourceOpener().open(root_ / "newer").error().code, EOPNOTSUPP);
  put("broken_array/.zarray", "{}");
  EXPECT_NE(reason("broken_array").find("zarr_format"), std::string::npos);
  put("v480/.nczarr", "{}");
  EXPECT_TRUE(SourceOpener().open(root_ / "v480"));
  EXPECT_EQ((*SourceOpener().open(root_))->format(), "Zarr v2");
  if (::geteuid() != 0) {
    put("locked", "x");
    files::permissions(root_ / "locked", files::perms::none);
    EXPECT_EQ(SourceOpener().open(root_ / "locked").error().code, EACCES);
  }
}

// Files of other writers
// ---------------------------------------------------------------------------------------------------

/// Directories below `top` that hold a Zarr store.
std::vector<files::path> stores_below(const files::path& top) {
  std::vector<files::path> stores;
  for (auto at = files::recursive_directory_iterator(top); at != files::recursive_directory_iterator(); ++at) {
    if (!at->is_directory() || !(files::exists(at->path() / ".zgroup") || files::exists(at->path() / ".zarray")))
      continue;
    stores.push_back(at->path());
    at.disable_recursion_pending();
  }
  return stores;
}

/// Reads everything; each error must have a reason.
void read_all(Source& source, ObjectId group, std::map<std::string, int>& counts) {
  const auto entries = source.list(group);
  ASSERT_TRUE(entries);
  ASSERT_TRUE(source.group_attributes(group));
  for (const Entry& entry : *entries) {
    if (entry.kind == EntryKind::group) {
      read_all(source, entry.object, counts);
      continue;
    }
    const auto variable = source.variable(entry.object);
    ASSERT_TRUE(variable) << entry.name << ": " << variable.error().reason;
    ++counts["variables"];
    const auto numbers = source.stored_chunks(entry.object, 0, 1000);
    ASSERT_TRUE(numbers) << numbers.error().reason;
    for (const uint64_t number : *numbers) {
      const auto bytes = source.read_chunk(entry.object, number);
      ++counts[bytes ? "chunks" : "errors"];
      if (bytes) {
        EXPECT_EQ(bytes->size(), (*variable)->chunk_bytes.value_or(bytes->size()));
      } else {
        EXPECT_FALSE(bytes.error().reason.empty());
      }
    }
  }
}

TEST(ZarrCorpus, StoresOfOthersAreRead) {
  const char* top = std::getenv("CODECFS_CORPUS");
  if (top == nullptr || !files::is_directory(top)) GTEST_SKIP() << "CODECFS_CORPUS does not name a directory";
  const auto stores = stores_below(top);
  if (stores.empty()) GTEST_SKIP() << top << " holds no Zarr directory";
  std::map<std::string, int> counts;
  for (const files::path& store : stores) {
    SCOPED_TRACE(store.string());
    auto source = SourceOpener().open(store);
    ASSERT_TRUE(source) << source.error().reason;
    if ((*source)->root().kind == EntryKind::group) read_all(**source, (*source)->root().object, counts);
  }
  EXPECT_GT(counts["variables"], 0);
  EXPECT_GT(counts["chunks"], 0);
}

}  // namespace
}  // namespace codecfs
