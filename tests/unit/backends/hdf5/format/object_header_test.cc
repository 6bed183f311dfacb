// Object headers as bytes: those that libhdf5 writes, edited ones that it reads again, and damaged ones.

#include "backends/hdf5/format/object_header.h"

#include <algorithm>
#include <random>
#include <set>

#include "backends/hdf5/format/superblock.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "base/endian.h"
#include "support/hdf5_description.h"
#include "support/write_log_testing.h"

namespace codecfs {
namespace {

using namespace hdf5_testing;
using hdf5::FileFormat;
using hdf5::HeaderMessage;
using hdf5::LibraryLock;
using hdf5::MessageType;
using hdf5::ObjectHeader;
using write_log_testing::Content;

ObjectHeader::Read reader_of(const Content& content) {
  return [&content](uint64_t offset, MutableBytes to) -> Result<> {
    if (offset > content.size() || to.size() > content.size() - offset) return fail(EIO, "beyond the end");
    std::copy_n(content.begin() + static_cast<ptrdiff_t>(offset), to.size(), to.begin());
    return {};
  };
}

ObjectHeader::Write writer_to(Content& content) {
  return [&content](uint64_t offset, Bytes bytes) -> Result<> {
    EXPECT_LE(offset + bytes.size(), content.size());
    std::ranges::copy(bytes, content.begin() + static_cast<ptrdiff_t>(offset));
    return {};
  };
}

enum class Version { one, two, ordered };

class ObjectHeaders : public Hdf5Files, public testing::WithParamInterface<Version> {
 protected:
  // Creates a dataset with this many attributes (which create continuations) and a comment.
  void make(int attributes, const std::string& comment = "") {
    const LibraryLock lock;
    const Handle file = create(GetParam() != Version::one, 512);
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk[] = {5};
    H5Pset_chunk(properties.get(), 1, chunk);
    H5Pset_deflate(properties.get(), 3);
    H5Pset_attr_phase_change(properties.get(), 1000, 0);
    if (GetParam() == Version::ordered) H5Pset_attr_creation_order(properties.get(), H5P_CRT_ORDER_TRACKED);
    const Handle dataset = make_dataset(file, "v", H5T_STD_I32LE, {20}, properties.get());
    write_all(dataset, H5T_NATIVE_INT, std::vector<int>(20, 7));
    for (int i = 0; i < attributes; ++i) {
      const hsize_t count = static_cast<hsize_t>(i) * 3 + 1;
      const Handle space(H5Screate_simple(1, &count, nullptr));
      const Handle attribute(H5Acreate2(dataset.get(), fmt::format("attribute {}", i).c_str(), H5T_STD_U8LE,
                                        space.get(), H5P_DEFAULT, H5P_DEFAULT));
      const std::vector<uint8_t> values(count, static_cast<uint8_t>(i));
      ASSERT_GE(H5Awrite(attribute.get(), H5T_STD_U8LE, values.data()), 0);
    }
    if (!comment.empty()) H5Oset_comment(dataset.get(), comment.c_str());
    hdf5::ObjectInfo info;
    ASSERT_TRUE(hdf5::object_info(dataset.get(), info));
    address_ = info.address;
#if H5_VERSION_GE(1, 12, 0)
    H5O_native_info_t native;
    ASSERT_GE(H5Oget_native_info(dataset.get(), &native, H5O_NATIVE_INFO_HDR), 0);
#else
    H5O_info_t native;
    ASSERT_GE(H5Oget_info2(dataset.get(), &native, H5O_INFO_HDR), 0);
#endif
    messages_ = native.hdr.nmesgs;
    chunks_ = native.hdr.nchunks;
    format_.base = 512;
  }
  void load() {
    content_ = write_log_testing::content_of(path());
    auto header = ObjectHeader::read(reader_of(content_), format_, address_);
    ASSERT_TRUE(header) << header.error().reason;
    header_ = *std::move(header);
  }
  void store() {
    ASSERT_TRUE(header_.write(writer_to(content_)));
    write_log_testing::store(path(), content_);
  }
  std::string describe() {
    const LibraryLock lock;
    return Description::of(path());
  }

  uint64_t address_ = 0;
  unsigned messages_ = 0;
  unsigned chunks_ = 0;
  FileFormat format_;
  Content content_;
  ObjectHeader header_;
};

TEST_P(ObjectHeaders, AreReadAsLibhdf5WritesThem) {
  for (const int attributes : {0, 1, 9, 40}) {
    make(attributes, "here");
    load();
    EXPECT_EQ(header_.count(MessageType::layout), 1U);
    EXPECT_EQ(header_.count(MessageType::filters), 1U);
    EXPECT_EQ(header_.count(MessageType::comment), 1U);
    EXPECT_EQ(header_.count(MessageType::continuation), chunks_ - 1);
    EXPECT_EQ(header_.count(static_cast<MessageType>(0x0c)), static_cast<size_t>(attributes));
    EXPECT_FALSE(header_.shares(MessageType::layout));
    // Written without a change, the bytes are identical.
    const Content before = content_;
    store();
    EXPECT_TRUE(content_ == before);
  }
}

TEST_P(ObjectHeaders, AreTheSameAfterMessagesWereTakenAndPutBack) {
  for (const int attributes : {0, 3, 40}) {
    for (const char* comment : {"", "c", "some room that can be used"}) {
      make(attributes, comment);
      const std::string before = describe();
      load();
      const std::array types = {MessageType::layout, MessageType::filters, MessageType::fill, MessageType::old_fill};
      std::vector<HeaderMessage> taken = header_.take(types);
      EXPECT_GE(taken.size(), 3U);
      EXPECT_EQ(header_.count(MessageType::layout), 0U);
      std::ranges::reverse(taken);
      ASSERT_TRUE(header_.put(taken));
      store();
      EXPECT_EQ(describe(), before);
      load();
      std::vector<HeaderMessage> again = header_.take(types);
      const auto by_type = [](const HeaderMessage& a, const HeaderMessage& b) { return a.type < b.type; };
      std::ranges::sort(again, by_type);
      std::ranges::sort(taken, by_type);
      EXPECT_EQ(again, taken);
    }
  }
}

// Fills the space of a comment with messages of every size: the rest is null messages or a gap, and libhdf5 continues
// with either.
TEST_P(ObjectHeaders, RoomIsFilledToTheLastByte) {
  const std::string room(64, 'r');
  for (size_t size = 0; size <= 80; ++size) {
    make(2, room);
    load();
    ASSERT_EQ(header_.take(std::array{MessageType::comment}).size(), 1U);
    HeaderMessage other{.type = MessageType::comment, .body = {}};
    other.body.resize(size + 1, std::byte{'x'});
    other.body.back() = std::byte{0};
    if (!header_.put({other})) {
      EXPECT_GT(size, 64U);
      continue;
    }
    store();
    const LibraryLock lock;
    {
      const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
      const Handle dataset(H5Dopen2(file.get(), "v", H5P_DEFAULT));
      char comment[100] = {};
      ASSERT_EQ(H5Oget_comment(dataset.get(), comment, sizeof comment), static_cast<ssize_t>(size));
      EXPECT_EQ(std::string(comment), std::string(size, 'x'));
      // libhdf5 can read and extend the result.
      for (const char* name : {"short", "a longer name than the other", "third"}) {
        const Handle space(H5Screate(H5S_SCALAR));
        const Handle attribute(H5Acreate2(dataset.get(), name, H5T_STD_U8LE, space.get(), H5P_DEFAULT, H5P_DEFAULT));
        ASSERT_TRUE(attribute) << size;
      }
      ASSERT_GE(H5Adelete(dataset.get(), "attribute 1"), 0);
      ASSERT_GE(H5Oset_comment(dataset.get(), "last"), 0);
    }
    const std::string text = Description::of(path());
    EXPECT_NE(text.find("# last"), std::string::npos);
    EXPECT_NE(text.find("a longer name"), std::string::npos);
    EXPECT_NE(text.find("third"), std::string::npos);
  }
}

TEST_P(ObjectHeaders, NothingChangesWhereThereIsNoRoom) {
  make(3);
  load();
  const Content before = content_;
  HeaderMessage small{.type = MessageType::comment, .body = std::vector<std::byte>(1)};
  HeaderMessage large{.type = MessageType::comment, .body = std::vector<std::byte>(5000)};
  std::vector<HeaderMessage> taken = header_.take(std::array{MessageType::filters});
  const Result<> put = header_.put({small, large});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ENOSPC);
  EXPECT_EQ(header_.count(MessageType::comment), 0U);
  ASSERT_TRUE(header_.put(taken));
  large.body.resize(70000);
  EXPECT_FALSE(header_.put({large}));
}

// Damage ------------------------------------------------------------------------------------------------------------

TEST_P(ObjectHeaders, DamageIsFoundOrDoesNoHarm) {
  make(12, "here");
  load();
  const Content good = content_;
  std::mt19937 random(5);
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    Content bad = good;
    const size_t at = 512 + address_;
    const unsigned changes = 1 + random() % 4;
    for (unsigned i = 0; i < changes; ++i) {
      const size_t where = at + random() % std::min<size_t>(600, bad.size() - at);
      bad[where] = static_cast<std::byte>(random() % 3 == 0 ? 0xff : random());
    }
    if (random() % 8 == 0) bad.resize(at + random() % (bad.size() - at));
    auto header = ObjectHeader::read(reader_of(bad), format_, address_);
    if (!header) {
      ++refused;
      EXPECT_EQ(header.error().code, EIO);
      continue;
    }
    Content written = bad;
    std::vector<HeaderMessage> taken = header->take(std::array{MessageType::layout, MessageType::filters});
    (void)header->put(std::move(taken));
    (void)header->write(writer_to(written));
  }
  EXPECT_GT(refused, 1000U);
  if (GetParam() != Version::one) {
    EXPECT_GT(refused, 8000U) << "checksums";
  }
}

INSTANTIATE_TEST_SUITE_P(All, ObjectHeaders, testing::Values(Version::one, Version::two, Version::ordered));

/// Headers of version 1, which have no checksums, each with one wrong value.
class HostileHeader {
 public:
  HostileHeader() : content(4096) {
    content[0] = std::byte{1};
    store_le<uint16_t>(content.data() + 2, 2);
    store_le<uint32_t>(content.data() + 8, 48);
    message(16, 0x10, 16);
    continuation(24, 512, 64);
    message(40, 0x08, 16);
    message(512, 0x00, 56);
  }
  void message(size_t at, uint16_t type, uint16_t size) {
    store_le(content.data() + at, type);
    store_le(content.data() + at + 2, size);
  }
  void continuation(size_t at, uint64_t address, uint64_t size) {
    store_le(content.data() + at, address);
    store_le(content.data() + at + 8, size);
  }
  [[nodiscard]] bool is_read() const {
    const auto header = ObjectHeader::read(reader_of(content), {}, 0);
    if (!header) {
      EXPECT_EQ(header.error().code, EIO);
    }
    return header.has_value();
  }

  Content content;
};

TEST(HostileObjectHeaders, AreRefused) {
  HostileHeader header;
  EXPECT_TRUE(header.is_read());
  const auto refused = [](const auto& lie) {
    HostileHeader bad;
    lie(bad);
    return !bad.is_read();
  };
  EXPECT_TRUE(refused([](auto& bad) { bad.continuation(24, 0, 64); })) << "leads to itself";
  EXPECT_TRUE(refused([](auto& bad) { bad.continuation(24, 40, 24); })) << "leads into itself";
  EXPECT_TRUE(refused([](auto& bad) { bad.continuation(24, 512, 4096); })) << "leads over the end";
  EXPECT_TRUE(refused([](auto& bad) { bad.continuation(24, UINT64_MAX, 64); })) << "leads nowhere";
  EXPECT_TRUE(refused([](auto& bad) { bad.continuation(24, 512, UINT64_MAX); })) << "longer than all";
  EXPECT_TRUE(refused([](auto& bad) { bad.message(16, 0x10, 8); })) << "has no length";
  EXPECT_TRUE(refused([](auto& bad) { bad.message(40, 0x08, 24); })) << "reaches over the end";
  EXPECT_TRUE(refused([](auto& bad) { bad.message(40, 0x08, 12); })) << "is not padded";
  EXPECT_TRUE(refused([](auto& bad) { store_le<uint32_t>(bad.content.data() + 8, 0xffffffff); })) << "is endless";
  EXPECT_TRUE(refused([](auto& bad) {  // a cycle of two
    bad.message(512, 0x10, 16);
    bad.continuation(520, 512, 64);
  }));
  EXPECT_TRUE(refused([](auto& bad) { bad.content[0] = std::byte{3}; })) << "another version";
}

// Many continuations, each with the next one, take time linear in their number.
TEST(HostileObjectHeaders, ManyContinuationsAreNoTrouble) {
  constexpr size_t kCount = 200'000;
  HostileHeader header;
  header.content.resize(4096 + kCount * 24);
  header.continuation(24, 4096, 24);
  for (size_t i = 0; i < kCount; ++i) {
    header.message(4096 + i * 24, 0x10, 16);
    header.continuation(4096 + i * 24 + 8, 4096 + (i + 1) * 24, i + 1 == kCount ? 0 : 24);
  }
  EXPECT_TRUE(header.is_read());
}

}  // namespace
}  // namespace codecfs
