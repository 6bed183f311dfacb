#pragma once
// The header of an HDF5 object as bytes: its messages, taken out and put in without libhdf5, which knows no way to give
// an object other storage. Source: HDF5 File Format Specification 3.0, section IV.A.
//
//   auto header = ObjectHeader::read(bytes, format, address);
//   auto taken = header->take(std::array{MessageType::layout});
//   header->put(std::move(others));   // ENOSPC: then nothing has changed
//   header->write(...);
//
// A header lies in chunks: the first one, and others that continuation messages lead to. A chunk that changes is packed
// anew, with what is free at its end; chunks do not change their place or size. Messages know nothing of where they
// lie.
//
// What is read may be damaged or made to harm: each length is checked against what holds it, chunks neither repeat nor
// take more than kMaxHeader bytes.

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
  old_fill = 0x04,
  fill = 0x05,
  layout = 0x08,
  filters = 0x0b,
  comment = 0x0d,
  continuation = 0x10,
};

struct HeaderMessage {
  static constexpr uint8_t kShared = 0x02;     // flag: the message itself lies elsewhere
  static constexpr uint8_t kShareable = 0x40;  // flag: an index of shared messages leads here

  MessageType type = MessageType::nil;
  uint8_t flags = 0;
  uint16_t creation_order = 0;  // where the header keeps it
  std::vector<std::byte> body{};
  bool operator==(const HeaderMessage&) const = default;
};

/// What the superblock says of all addresses.
struct FileFormat {
  uint64_t base = 0;       // bytes before address 0
  size_t offset_size = 8;  // bytes of an address
  size_t length_size = 8;  // bytes of a length
};

class ObjectHeader {
 public:
  static constexpr uint64_t kMaxHeader = uint64_t{64} << 20;  // bytes

  /// Fills all of `to` from the file, counted from its start; fails where the file is shorter.
  using Read = std::function<Result<>(uint64_t offset, MutableBytes to)>;
  using Write = std::function<Result<>(uint64_t offset, Bytes bytes)>;

  /// EIO: this is no object header, or a damaged one.
  static Result<ObjectHeader> read(const Read& read, const FileFormat& format, uint64_t address);

  /// How many messages of the type there are, and whether something outside of the header knows one of them.
  [[nodiscard]] size_t count(MessageType type) const;
  [[nodiscard]] bool shares(MessageType type) const;

  /// Removes all messages of these types and gives them, in their order.
  std::vector<HeaderMessage> take(std::span<const MessageType> types);
  /// Adds messages where there is room. ENOSPC where there is none for one of them; then nothing has changed.
  Result<> put(std::vector<HeaderMessage> messages);
  /// Bytes that put() needs at most in one piece.
  [[nodiscard]] uint64_t room_for(std::span<const HeaderMessage> messages) const;

  /// Writes the chunks that have changed.
  Result<> write(const Write& write) const;

 private:
  struct Chunk {
    uint64_t offset = 0;  // of its first byte in the file
    std::vector<std::byte> bytes;
    size_t begin = 0;  // of its messages in `bytes`
    size_t end = 0;
    std::vector<HeaderMessage> messages;  // without those that are empty space
    size_t count = 0;                     // of messages as they are in `bytes`, empty space too
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
  int version_ = 1;
  bool keeps_order_ = false;  // of creation, in each message
  std::vector<Chunk> chunks_;
  std::map<uint64_t, uint64_t> places_;  // of chunks: first byte and end in the file
  uint64_t total_ = 0;                   // bytes of all chunks
};

}  // namespace codecfs::hdf5
