#pragma once
// Reads, changes and writes the messages of an HDF5 object header without libhdf5, which cannot replace the storage of
// an object. Source: HDF5 File Format Specification 3.0, section IV.A.
//
//   auto header = ObjectHeader::read(bytes, format, address);
//   auto taken = header->take(std::array{MessageType::layout});
//   header->put(std::move(others));   // ENOSPC: then nothing has changed
//   header->write(...);
//
// A header consists of chunks: the first one, and others that continuation messages refer to. A changed chunk is
// repacked with its free space at the end; chunks keep their address and size. The content of messages does not depend
// on their position.
//
// The input may be damaged or malicious: each length is checked against its container, and chunks must be distinct and
// not exceed kMaxHeader bytes in total.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::hdf5 {

enum class MessageType : uint16_t {
  nil = 0x00,
  dataspace = 0x01,
  link_info = 0x02,
  datatype = 0x03,
  old_fill = 0x04,
  fill = 0x05,
  link = 0x06,
  layout = 0x08,
  group_info = 0x0a,
  filters = 0x0b,
  attribute = 0x0c,
  comment = 0x0d,
  old_time = 0x0e,
  continuation = 0x10,
  symbol_table = 0x11,
  time = 0x12,
  attribute_info = 0x15,
  references = 0x16,
};

struct HeaderMessage {
  static constexpr uint8_t kShared = 0x02;     // flag: the message is stored elsewhere
  static constexpr uint8_t kShareable = 0x40;  // flag: an index of shared messages refers to it

  MessageType type = MessageType::nil;
  uint8_t flags = 0;
  uint16_t creation_order = 0;  // if the header stores it
  std::vector<std::byte> body{};
  bool operator==(const HeaderMessage&) const = default;
};

/// Superblock values that apply to all addresses.
struct FileFormat {
  uint64_t base = 0;       // bytes before address 0
  size_t offset_size = 8;  // bytes of an address
  size_t length_size = 8;  // bytes of a length
};

class ObjectHeader {
 public:
  static constexpr uint64_t kMaxHeader = uint64_t{64} << 20;  // bytes

  /// Must fill all of `to`, at an offset from the start of the file, or fail.
  using Read = std::function<Result<>(uint64_t offset, MutableBytes to)>;
  using Write = std::function<Result<>(uint64_t offset, Bytes bytes)>;

  /// EIO: not an object header, or a damaged one, or larger than `most` bytes.
  static Result<ObjectHeader> read(const Read& read, const FileFormat& format, uint64_t address,
                                   uint64_t most = kMaxHeader);

  /// The number of messages of the type, and whether one of them is referenced from outside of the header.
  [[nodiscard]] size_t count(MessageType type) const;
  [[nodiscard]] bool shares(MessageType type) const;

  /// 1 or 2.
  [[nodiscard]] int version() const { return version_; }
  /// All messages but empty space, those of each chunk in their order. Valid until the header is changed.
  [[nodiscard]] std::vector<const HeaderMessage*> messages() const;
  /// Version 1: the number of hard links to the object. Version 2 has a message for it.
  [[nodiscard]] uint32_t old_references() const { return old_references_; }
  /// Whether there are as many messages as a header of version 1 says.
  [[nodiscard]] bool has_stated_count() const;

  /// Removes all messages of these types and returns them in their order.
  std::vector<HeaderMessage> take(std::span<const MessageType> types);
  /// Adds messages. ENOSPC if one of them does not fit; then nothing has changed.
  Result<> put(std::vector<HeaderMessage> messages);
  /// Upper bound for the contiguous space that put() needs, in bytes.
  [[nodiscard]] uint64_t room_for(std::span<const HeaderMessage> messages) const;

  /// Writes the chunks that have changed.
  Result<> write(const Write& write) const;

 private:
  struct Chunk {
    uint64_t offset = 0;  // of its first byte in the file
    std::vector<std::byte> bytes;
    size_t begin = 0;  // of its messages in `bytes`
    size_t end = 0;
    std::vector<HeaderMessage> messages;  // without empty space
    size_t count = 0;                     // of messages in `bytes`, including empty space
    bool changed = false;
  };

  Result<> read_first(const Read& read, uint64_t offset);
  Result<> read_continuation(const Read& read, const HeaderMessage& message);
  Result<> parse(Chunk chunk);
  Result<> check_sum(const Chunk& chunk) const;
  Result<> note_place(const Chunk& chunk);
  [[nodiscard]] size_t message_header() const;
  [[nodiscard]] size_t size_of(const HeaderMessage& message) const;
  [[nodiscard]] size_t room_in(const Chunk& chunk) const;
  void pack(Chunk& chunk) const;

  FileFormat format_;
  uint64_t most_ = kMaxHeader;  // bytes of all chunks
  int version_ = 1;
  bool keeps_order_ = false;  // each message has its creation order
  uint32_t old_references_ = 0;
  size_t stated_count_ = 0;  // of messages, in version 1
  std::vector<Chunk> chunks_;
  std::map<uint64_t, uint64_t> places_;  // of chunks: start and end in the file
  uint64_t total_ = 0;                   // bytes of all chunks
};

}  // namespace codecfs::hdf5
