// The two header formats.
//
// Version 1: 12 bytes and 4 of padding, then messages padded to multiples of 8 bytes; continuation chunks have only
// messages.
//
//   1 | 0 | LE16 number of messages | LE32 references | LE32 bytes of chunk 0 | 4 bytes
//   message:  LE16 type | LE16 size | flags | 3 bytes | body
//
// Version 2: signatures and checksums, no padding. A remainder of a chunk that is smaller than a message's header is a
// gap.
//
//   "OHDR" | 2 | flags | [16: times] | [4: attribute limits] | bytes of chunk 0 in 1, 2, 4 or 8 | messages | gap | LE32
//   "OCHK" | messages | gap | LE32
//   message:  type | LE16 size | flags | [LE16 creation order] | body

#include "backends/hdf5/format/object_header.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "backends/hdf5/format/superblock.h"
#include "base/endian.h"

namespace codecfs::hdf5 {
namespace {

constexpr size_t kPrefix1 = 16;
constexpr size_t kMessageHead1 = 8;
constexpr size_t kMessageHead2 = 4;
constexpr size_t kCreationOrder = 2;
constexpr size_t kSignature = 4;
constexpr size_t kChecksum = 4;
constexpr size_t kLargestBody = 65535;
constexpr size_t kLargestPaddedBody = 65528;

constexpr unsigned kSizeOfChunkSize = 3;  // flags of version 2
constexpr unsigned kTracksOrder = 1 << 2;
constexpr unsigned kHasLimits = 1 << 4;
constexpr unsigned kHasTimes = 1 << 5;
constexpr unsigned kKnownFlags = 0x3f;

std::unexpected<Error> damaged(const char* what) { return fail(EIO, "damaged object header: {}", what); }

uint64_t load_number(const std::byte* from, size_t size) {
  uint64_t value = 0;
  for (size_t i = size; i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(from[i]);
  return value;
}

size_t padded(size_t size) { return (size + 7) / 8 * 8; }

bool has_signature(Bytes bytes, const char* signature) {
  return bytes.size() >= kSignature && std::memcmp(bytes.data(), signature, kSignature) == 0;
}

}  // namespace

size_t ObjectHeader::message_header() const {
  if (version_ == 1) return kMessageHead1;
  return kMessageHead2 + (keeps_order_ ? kCreationOrder : 0);
}

size_t ObjectHeader::size_of(const HeaderMessage& message) const {
  return message_header() + (version_ == 1 ? padded(message.body.size()) : message.body.size());
}

Result<ObjectHeader> ObjectHeader::read(const Read& read, const FileFormat& format, uint64_t address, uint64_t most) {
  ObjectHeader header;
  header.most_ = most;
  header.format_ = format;
  if (format.offset_size < 2 || format.offset_size > 8 || format.length_size < 2 || format.length_size > 8)
    return damaged("sizes of addresses");
  if (address > INT64_MAX || format.base > INT64_MAX) return damaged("its address");
  CODECFS_TRY(header.read_first(read, format.base + address));
  // Continuation chunks may contain further continuations, so the list grows during the loop.
  for (size_t chunk = 0; chunk < header.chunks_.size(); ++chunk) {
    for (size_t i = 0; i < header.chunks_[chunk].messages.size(); ++i) {
      if (header.chunks_[chunk].messages[i].type != MessageType::continuation) continue;
      const HeaderMessage message = header.chunks_[chunk].messages[i];  // what it is in may be moved
      CODECFS_TRY(header.read_continuation(read, message));
    }
  }
  return header;
}

Result<> ObjectHeader::read_first(const Read& read, uint64_t offset) {
  std::vector<std::byte> start(kPrefix1);
  CODECFS_TRY(read(offset, start));
  Chunk chunk{.offset = offset, .bytes = {}, .messages = {}};
  uint64_t size = 0;
  if (has_signature(start, "OHDR")) {
    if (start[kSignature] != std::byte{2}) return damaged("an unknown version");
    version_ = 2;
    const auto flags = std::to_integer<unsigned>(start[kSignature + 1]);
    if ((flags & ~kKnownFlags) != 0) return damaged("unknown flags");
    keeps_order_ = (flags & kTracksOrder) != 0;
    const size_t size_at = kSignature + 2 + ((flags & kHasTimes) != 0 ? 16 : 0) + ((flags & kHasLimits) != 0 ? 4 : 0);
    const size_t size_bytes = size_t{1} << (flags & kSizeOfChunkSize);
    start.resize(size_at + size_bytes);
    CODECFS_TRY(read(offset, start));
    chunk.begin = size_at + size_bytes;
    size = load_number(start.data() + size_at, size_bytes);
  } else {
    if (start[0] != std::byte{1}) return damaged("an unknown version");
    chunk.begin = kPrefix1;
    stated_count_ = load_le<uint16_t>(start.data() + 2);
    old_references_ = load_le<uint32_t>(start.data() + 4);
    size = load_le<uint32_t>(start.data() + 8);
  }
  if (size > most_) return damaged("its size");
  chunk.end = chunk.begin + size;
  chunk.bytes.resize(chunk.end + (version_ == 2 ? kChecksum : 0));
  CODECFS_TRY(read(offset, chunk.bytes));
  return parse(std::move(chunk));
}

Result<> ObjectHeader::read_continuation(const Read& read, const HeaderMessage& message) {
  if (message.body.size() < format_.offset_size + format_.length_size) return damaged("a short continuation");
  const uint64_t address = load_number(message.body.data(), format_.offset_size);
  const uint64_t size = load_number(message.body.data() + format_.offset_size, format_.length_size);
  const size_t around = version_ == 2 ? kSignature + kChecksum : 0;
  if (address > INT64_MAX || size > most_ || size < around) return damaged("a continuation's place");
  const uint64_t offset = format_.base + address;
  Chunk chunk{.offset = offset, .bytes = std::vector<std::byte>(size), .messages = {}};
  chunk.begin = version_ == 2 ? kSignature : 0;
  chunk.end = size - (version_ == 2 ? kChecksum : 0);
  CODECFS_TRY(read(offset, chunk.bytes));
  if (version_ == 2 && !has_signature(chunk.bytes, "OCHK")) return damaged("no continuation where one should be");
  return parse(std::move(chunk));
}

Result<> ObjectHeader::note_place(const Chunk& chunk) {
  const uint64_t end = chunk.offset + chunk.bytes.size();
  const auto next = places_.lower_bound(chunk.offset);
  const bool overlaps = (next != places_.end() && next->first < end) ||
                        (next != places_.begin() && std::prev(next)->second > chunk.offset);
  if (overlaps) return damaged("continuations overlap");
  places_.emplace(chunk.offset, end);
  total_ += chunk.bytes.size();
  if (total_ > most_) return damaged("its size");
  return {};
}

Result<> ObjectHeader::check_sum(const Chunk& chunk) const {
  if (version_ == 1) return {};
  if (load_le<uint32_t>(chunk.bytes.data() + chunk.end) != lookup3(Bytes(chunk.bytes).first(chunk.end)))
    return damaged("its checksum");
  return {};
}

Result<> ObjectHeader::parse(Chunk chunk) {
  CODECFS_TRY(check_sum(chunk));
  CODECFS_TRY(note_place(chunk));
  const size_t head = message_header();
  size_t at = chunk.begin;
  for (; chunk.end - at >= head;) {
    const std::byte* bytes = chunk.bytes.data() + at;
    HeaderMessage message;
    size_t size = 0;
    if (version_ == 1) {
      message.type = static_cast<MessageType>(load_le<uint16_t>(bytes));
      size = load_le<uint16_t>(bytes + 2);
      message.flags = std::to_integer<uint8_t>(bytes[4]);
      if (size % 8 != 0) return damaged("a message that is not padded");
    } else {
      message.type = static_cast<MessageType>(bytes[0]);
      size = load_le<uint16_t>(bytes + 1);
      message.flags = std::to_integer<uint8_t>(bytes[3]);
      if (keeps_order_) message.creation_order = load_le<uint16_t>(bytes + kMessageHead2);
    }
    if (size > chunk.end - at - head) return damaged("a message longer than what holds it");
    message.body.assign(bytes + head, bytes + head + size);
    at += head + size;
    ++chunk.count;
    if (message.type != MessageType::nil) chunk.messages.push_back(std::move(message));
  }
  if (version_ == 1 && at != chunk.end) return damaged("something after its messages");
  chunks_.push_back(std::move(chunk));
  return {};
}

size_t ObjectHeader::count(MessageType type) const {
  size_t count = 0;
  for (const Chunk& chunk : chunks_)
    count += static_cast<size_t>(std::ranges::count(chunk.messages, type, &HeaderMessage::type));
  return count;
}

std::vector<const HeaderMessage*> ObjectHeader::messages() const {
  std::vector<const HeaderMessage*> all;
  for (const Chunk& chunk : chunks_)
    for (const HeaderMessage& message : chunk.messages) all.push_back(&message);
  return all;
}

bool ObjectHeader::has_stated_count() const {
  size_t count = 0;
  for (const Chunk& chunk : chunks_) count += chunk.count;
  return version_ != 1 || count == stated_count_;
}

bool ObjectHeader::shares(MessageType type) const {
  return std::ranges::any_of(chunks_, [&](const Chunk& chunk) {
    return std::ranges::any_of(chunk.messages, [&](const HeaderMessage& message) {
      return message.type == type && (message.flags & (HeaderMessage::kShared | HeaderMessage::kShareable)) != 0;
    });
  });
}

std::vector<HeaderMessage> ObjectHeader::take(std::span<const MessageType> types) {
  std::vector<HeaderMessage> taken;
  for (Chunk& chunk : chunks_) {
    const auto wanted = [&](const HeaderMessage& message) {
      return std::ranges::find(types, message.type) != types.end();
    };
    for (HeaderMessage& message : chunk.messages)
      if (wanted(message)) taken.push_back(message);
    if (std::erase_if(chunk.messages, wanted) > 0) chunk.changed = true;
  }
  return taken;
}

size_t ObjectHeader::room_in(const Chunk& chunk) const {
  size_t used = 0;
  for (const HeaderMessage& message : chunk.messages) used += size_of(message);
  return chunk.end - chunk.begin - used;
}

uint64_t ObjectHeader::room_for(std::span<const HeaderMessage> messages) const {
  uint64_t room = 0;
  for (const HeaderMessage& message : messages) room += size_of(message);
  return room;
}

Result<> ObjectHeader::put(std::vector<HeaderMessage> messages) {
  std::vector<size_t> room;
  for (const Chunk& chunk : chunks_) room.push_back(room_in(chunk));
  std::vector<size_t> places;
  for (const HeaderMessage& message : messages) {
    const size_t size = size_of(message);
    const auto place = std::ranges::find_if(room, [&](size_t left) { return left >= size; });
    if (place == room.end() || message.body.size() > kLargestBody)
      return fail(ENOSPC, "an object header has no room for {} bytes more", size);
    *place -= size;
    places.push_back(static_cast<size_t>(place - room.begin()));
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    Chunk& chunk = chunks_[places[i]];
    if (version_ == 1) messages[i].body.resize(padded(messages[i].body.size()));
    if (!keeps_order_) messages[i].creation_order = 0;
    chunk.messages.push_back(std::move(messages[i]));
    chunk.changed = true;
  }
  return {};
}

// Writes the messages, then the free space as null messages, then the gap.
void ObjectHeader::pack(Chunk& chunk) const {
  const size_t head = message_header();
  size_t at = chunk.begin;
  chunk.count = 0;
  const auto append = [&](const HeaderMessage& message) {
    std::byte* to = chunk.bytes.data() + at;
    std::memset(to, 0, head);
    const auto size = static_cast<uint16_t>(message.body.size());
    if (version_ == 1) {
      store_le(to, static_cast<uint16_t>(message.type));
      store_le(to + 2, size);
      to[4] = std::byte{message.flags};
    } else {
      to[0] = static_cast<std::byte>(message.type);
      store_le(to + 1, size);
      to[3] = std::byte{message.flags};
      if (keeps_order_) store_le(to + kMessageHead2, message.creation_order);
    }
    std::ranges::copy(message.body, to + head);
    at += head + message.body.size();
    ++chunk.count;
  };
  for (const HeaderMessage& message : chunk.messages) append(message);
  while (chunk.end - at >= head) {
    const size_t most = version_ == 1 ? kLargestPaddedBody : kLargestBody;
    HeaderMessage nil;
    nil.body.resize(std::min(chunk.end - at - head, most));
    append(nil);
  }
  std::fill(chunk.bytes.begin() + static_cast<ptrdiff_t>(at), chunk.bytes.begin() + static_cast<ptrdiff_t>(chunk.end),
            std::byte{0});
  if (version_ == 2) store_le(chunk.bytes.data() + chunk.end, lookup3(Bytes(chunk.bytes).first(chunk.end)));
}

Result<> ObjectHeader::write(const Write& write) const {
  std::vector<Chunk> chunks = chunks_;
  size_t count = 0;
  for (Chunk& chunk : chunks) {
    if (chunk.changed) pack(chunk);
    count += chunk.count;
  }
  if (version_ == 1) {  // the first chunk has the total number of messages
    if (count > UINT16_MAX) return fail(EOPNOTSUPP, "an object header of {} messages", count);
    store_le(chunks[0].bytes.data() + 2, static_cast<uint16_t>(count));
    chunks[0].changed = true;
  }
  for (const Chunk& chunk : chunks)
    if (chunk.changed) CODECFS_TRY(write(chunk.offset, chunk.bytes));
  return {};
}

}  // namespace codecfs::hdf5
