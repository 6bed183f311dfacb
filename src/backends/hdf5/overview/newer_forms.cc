#include "backends/hdf5/overview/newer_forms.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/api/newer_format.h"
#include "backends/hdf5/format/cursor.h"
#include "backends/hdf5/format/object_header.h"
#include "backends/hdf5/format/superblock.h"
#include "backends/hdf5/library/access_recorder.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/text.h"
#include "backends/hdf5/overview/messages.h"
#include "base/endian.h"

namespace codecfs::hdf5 {
namespace {

constexpr uint64_t kMaxHeader = uint64_t{16} << 20;  // bytes of the parts that are read
constexpr uint64_t kMaxHeap = uint64_t{64} << 20;
constexpr uint64_t kMaxBlock = uint64_t{16} << 20;
constexpr size_t kMaxCommitted = 4;  // types, each of which refers to the next one

struct Superblock {
  FileFormat format;
  uint64_t version = 0;
  bool is_checked = false;  // it has a checksum, which is right
};

/// Bytes of the superblock that its checksum covers, in versions 2 and 3.
size_t checked_bytes(size_t offset_size) { return 12 + 4 * offset_size; }

std::vector<std::byte> bytes_at(const ReadFile& read, uint64_t offset, uint64_t size) {
  std::vector<std::byte> bytes(size);
  const Result<size_t> count = read(offset, bytes);
  bytes.resize(count ? *count : 0);
  return bytes;
}

std::optional<Superblock> read_superblock(const ReadFile& read) {
  constexpr std::string_view kBegin = "\x89HDF\r\n\x1a\n";
  constexpr uint64_t kMaxUserBlock = uint64_t{1} << 30;
  for (uint64_t offset = 0; offset <= kMaxUserBlock; offset = offset == 0 ? 512 : 2 * offset) {
    const std::vector<std::byte> bytes = bytes_at(read, offset, 64);
    if (bytes.size() < 24) return std::nullopt;
    if (std::memcmp(bytes.data(), kBegin.data(), kBegin.size()) != 0) continue;
    Superblock found;
    Cursor in{bytes, kBegin.size()};
    found.version = in.number(1);
    if (found.version < 2) in.at = 13;
    found.format = {offset, static_cast<size_t>(in.number(1)), static_cast<size_t>(in.number(1))};
    const size_t checked = checked_bytes(found.format.offset_size);
    if (found.version >= 2 && checked + sizeof(uint32_t) <= bytes.size())
      found.is_checked = load_le<uint32_t>(&bytes[checked]) == lookup3(Bytes(bytes).first(checked));
    return found;
  }
  return std::nullopt;
}

class Search {
 public:
  Search(const ReadFile& read, const FileFormat& format) : read_(read), format_(format) {}

  std::optional<std::string> in_object(uint64_t address);
  std::optional<std::string> in_attributes(uint64_t address, bool has_failed);

 private:
  [[nodiscard]] Result<ObjectHeader> header_at(uint64_t address) const;
  [[nodiscard]] std::optional<std::string> in_type(Bytes body, bool is_shared, bool is_checked, size_t depth) const;
  [[nodiscard]] std::optional<std::string> in_layout(Bytes body, bool is_checked) const;
  [[nodiscard]] std::optional<std::string> in_mappings(Bytes block) const;
  [[nodiscard]] std::optional<std::string> in_attribute(Bytes body, bool is_checked) const;
  [[nodiscard]] std::optional<std::string> in_heap(uint64_t address) const;
  [[nodiscard]] std::optional<std::string> in_heap_block(Bytes block, size_t begin) const;
  [[nodiscard]] std::vector<std::byte> heap_object(uint64_t address, uint64_t index) const;
  [[nodiscard]] uint64_t address_in(Cursor& in) const { return in.number(format_.offset_size); }
  [[nodiscard]] uint64_t length_in(Cursor& in) const { return in.number(format_.length_size); }
  [[nodiscard]] std::vector<std::byte> block_at(uint64_t address, uint64_t size) const {
    if (address > INT64_MAX || size > kMaxBlock) return {};
    return bytes_at(read_, format_.base + address, size);
  }

  const ReadFile& read_;
  const FileFormat format_;
};

Result<ObjectHeader> Search::header_at(uint64_t address) const {
  const auto read_all = [this](uint64_t offset, MutableBytes to) -> Result<> {
    CODECFS_ASSIGN(const size_t count, read_(offset, to));
    if (count < to.size()) return fail(EIO, "the file ends before");
    return {};
  };
  return ObjectHeader::read(read_all, format_, address, kMaxHeader);
}

/// `is_shared`: the body says where the type is.
std::optional<std::string> Search::in_type(Bytes body, bool is_shared, bool is_checked, size_t depth) const {
  if (!is_shared) {
    const DatatypeVersion version = datatype_version(body);
    if (version.newest <= kNewestDatatype || (!is_checked && !version.is_plausible)) return std::nullopt;
    return fmt::format("datatype version {}", version.newest);
  }
  constexpr uint64_t kCommitted = 2;
  Cursor in{body};
  const uint64_t version = in.number(1);
  const uint64_t kind = in.number(1);
  if (version == 1) in.skip(6);
  const uint64_t address = address_in(in);
  if (in.failed || version < 1 || version > 3 || (version == 3 && kind != kCommitted) || depth >= kMaxCommitted)
    return std::nullopt;
  const Result<ObjectHeader> type = header_at(address);
  if (!type) return std::nullopt;
  for (const HeaderMessage* message : type->messages())
    if (message->type == MessageType::datatype)
      return in_type(message->body, (message->flags & HeaderMessage::kShared) != 0, type->version() == 2, depth + 1);
  return std::nullopt;
}

std::optional<std::string> Search::in_layout(Bytes body, bool is_checked) const {
  constexpr uint64_t kNewestKnown = 5;
  constexpr uint64_t kVirtual = 3;
  Cursor in{body};
  const uint64_t version = in.number(1);
  const uint64_t kind = in.number(1);
  if (in.failed) return std::nullopt;
  if (version > kNewestLayout) {
    if (!is_checked && (version > kNewestKnown || kind > kVirtual)) return std::nullopt;
    return fmt::format("data layout version {}", version);
  }
  if (version < 4 || kind != kVirtual) return std::nullopt;
  const uint64_t heap = address_in(in);
  const uint64_t index = in.number(4);
  return in.failed ? std::nullopt : in_mappings(heap_object(heap, index));
}

/// An object of a global heap; empty: there is none.
std::vector<std::byte> Search::heap_object(uint64_t address, uint64_t index) const {
  const size_t start = 8 + format_.length_size;
  const std::vector<std::byte> head = block_at(address, start);
  if (head.size() < start || !is_marked(head, "GCOL")) return {};
  Cursor size_in{head, 8};
  const std::vector<std::byte> all = block_at(address, length_in(size_in));
  Cursor in{all, start};
  while (!in.failed) {
    const uint64_t number = in.number(2);
    in.skip(6);  // references, reserved
    const uint64_t size = length_in(in);
    const Bytes object = in.take(size);
    if (in.failed || number == 0) return {};
    if (number == index) return {object.begin(), object.end()};
    in.skip((8 - size % 8) % 8);
  }
  return {};
}

/// What a virtual dataset consists of.
std::optional<std::string> Search::in_mappings(Bytes block) const {
  if (block.size() < 1 + sizeof(uint32_t)) return std::nullopt;
  const size_t end = block.size() - sizeof(uint32_t);
  if (load_le<uint32_t>(&block[end]) != lookup3(block.first(end))) return std::nullopt;
  Cursor in{block.first(end)};
  const uint64_t version = in.number(1);
  if (version > kNewestMappings) return fmt::format("virtual dataset mappings version {}", version);
  if (version > 0) return std::nullopt;
  const uint64_t count = length_in(in);
  const auto skip_text = [&] {
    const Bytes rest = in.remaining();
    in.skip(static_cast<uint64_t>(std::ranges::find(rest, std::byte{0}) - rest.begin()) + 1);
  };
  for (uint64_t i = 0; i < 2 * count && !in.failed; ++i) {  // the selections of the source and of the dataset
    if (i % 2 == 0) skip_text(), skip_text();               // a file, a dataset in it
    constexpr uint64_t kPoints = 1;
    constexpr uint64_t kHyperslab = 2;
    const uint64_t kind = in.number(4);
    const uint64_t selection = in.number(4);
    const uint64_t newest = kind == kHyperslab ? kNewestHyperslab : kind == kPoints ? kNewestPoints : 1;
    if (in.failed) return std::nullopt;
    if (selection > newest) return fmt::format("selection version {} in a virtual dataset", selection);
    if (kind == kHyperslab && selection >= 2) {
      const bool is_regular = (in.number(1) & 1) != 0;
      const uint64_t size = selection == 3 ? in.number(1) : 8;
      if (selection == 2) in.skip(4);
      const uint64_t rank = in.number(4);
      const uint64_t numbers = is_regular ? 4 * rank : 2 * rank * in.number(size);
      in.skip(std::min(numbers, block.size()) * size);
    } else if (kind == kPoints && selection == 2) {
      const uint64_t size = in.number(1);
      const uint64_t rank = in.number(4);
      in.skip(std::min(rank * in.number(size), block.size()) * size);
    } else {
      in.skip(4);
      in.skip(in.number(4));
    }
  }
  return std::nullopt;
}

/// A message of an attribute, whose parts need not be known.
std::optional<std::string> Search::in_attribute(Bytes body, bool is_checked) const {
  Cursor in{body};
  const uint64_t version = in.number(1);
  const uint64_t flags = in.number(1);
  const uint64_t name_bytes = in.number(2);
  const uint64_t type_bytes = in.number(2);
  in.skip(2);  // bytes of the dataspace
  const uint64_t characters = version == 3 ? in.number(1) : 0;
  if (in.failed || version < 1 || version > 3 || characters > 1) return std::nullopt;
  const auto padding = [&](uint64_t size) { return version == 1 ? (8 - size % 8) % 8 : 0; };
  const Bytes name = in.take(name_bytes);
  in.skip(padding(name_bytes));
  const Bytes type = in.take(type_bytes);
  if (in.failed || name.empty() || std::ranges::find(name, std::byte{0}) != name.end() - 1) return std::nullopt;
  const auto newer = in_type(type, version > 1 && (flags & 1) != 0, is_checked, 0);
  if (!newer) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(name.data()), name.size() - 1);
  return fmt::format("attribute \"{}\": {}", as_utf8(text), newer_hdf5_reason(*newer));
}

// A direct block of a fractal heap with attributes. They are found by what they look like: their places are in a
// B-tree, which tells no more than which of them have gaps between them.
std::optional<std::string> Search::in_heap_block(Bytes block, size_t begin) const {
  const size_t checksum = begin - sizeof(uint32_t);
  std::vector<std::byte> zeroed(block.begin(), block.end());
  std::fill_n(zeroed.begin() + static_cast<ptrdiff_t>(checksum), sizeof(uint32_t), std::byte{0});
  if (load_le<uint32_t>(&block[checksum]) != lookup3(zeroed)) return std::nullopt;
  for (size_t at = begin; at < block.size(); ++at) {
    if (block[at] != std::byte{2} && block[at] != std::byte{3}) continue;
    if (auto newer = in_attribute(block.subspan(at), false)) return newer;
  }
  return std::nullopt;
}

/// Attributes outside of the object header are in a fractal heap, whose direct blocks libhdf5 gives checksums.
std::optional<std::string> Search::in_heap(uint64_t address) const {
  const size_t offset = format_.offset_size;
  const size_t length = format_.length_size;
  const size_t size = 14 + 12 * length + 3 * offset + 12;
  const std::vector<std::byte> header = block_at(address, size);
  if (header.size() < size || !is_marked(header, "FRHP") ||
      load_le<uint32_t>(&header[size - 4]) != lookup3(Bytes(header).first(size - 4)))
    return std::nullopt;
  Cursor in{header, 7};
  constexpr uint64_t kChecksums = 2;
  if (in.number(2) != 0 || (in.number(1) & kChecksums) == 0) return std::nullopt;  // filters
  in.at = 14 + 10 * length + 2 * offset;
  const uint64_t width = in.number(2);
  const uint64_t first_bytes = length_in(in);
  const uint64_t most_bytes = length_in(in);
  const uint64_t block_offset_bytes = (in.number(2) + 7) / 8;
  in.skip(2);
  const uint64_t root = address_in(in);
  const uint64_t rows = in.number(2);
  if (in.failed || first_bytes == 0 || first_bytes > kMaxBlock || most_bytes > kMaxBlock || width > 1024 ||
      block_offset_bytes > 8)
    return std::nullopt;
  const size_t head = 5 + offset + block_offset_bytes;
  const auto in_direct = [&](uint64_t at, uint64_t bytes) -> std::optional<std::string> {
    const std::vector<std::byte> block = block_at(at, bytes);
    if (block.size() < bytes || bytes < head + 4 || !is_marked(block, "FHDB")) return std::nullopt;
    return in_heap_block(block, head + 4);
  };
  if (rows == 0) return in_direct(root, first_bytes);
  // The rows of direct blocks; those of indirect ones follow, of heaps of more than some hundred KiB.
  const std::vector<std::byte> table = block_at(root, head + rows * width * offset);
  if (!is_marked(table, "FHIB")) return std::nullopt;
  Cursor children{table, head};
  uint64_t total = 0;
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t bytes = row < 2 ? first_bytes : first_bytes << std::min<uint64_t>(row - 1, 32);
    if (bytes > most_bytes) break;
    for (uint64_t column = 0; column < width; ++column) {
      const uint64_t at = address_in(children);
      total += bytes;
      if (children.failed || total > kMaxHeap) return std::nullopt;
      if (auto newer = in_direct(at, bytes)) return newer;
    }
  }
  return std::nullopt;
}

std::optional<std::string> Search::in_object(uint64_t address) {
  const Result<ObjectHeader> header = header_at(address);
  if (!header) return std::nullopt;
  struct Newest {
    MessageType type;
    unsigned version;
    const char* name;
  };
  constexpr std::array<Newest, 3> kOthers{{{MessageType::dataspace, 2, "dataspace"},
                                           {MessageType::fill, 3, "fill value"},
                                           {MessageType::filters, 2, "filter pipeline"}}};
  const bool is_checked = header->version() == 2;
  for (const HeaderMessage* message : header->messages()) {
    const bool is_shared = (message->flags & HeaderMessage::kShared) != 0;
    std::optional<std::string> newer;
    if (message->type == MessageType::datatype) newer = in_type(message->body, is_shared, is_checked, 0);
    if (is_shared && !newer) continue;
    if (message->type == MessageType::layout) newer = in_layout(message->body, is_checked);
    const auto* const other = std::ranges::find(kOthers, message->type, &Newest::type);
    if (other != kOthers.end() && is_checked && !message->body.empty())
      if (const auto version = std::to_integer<unsigned>(message->body[0]); version > other->version)
        newer = fmt::format("{} version {}", other->name, version);
    if (newer) return newer_hdf5_reason(*newer);
  }
  return std::nullopt;
}

std::optional<std::string> Search::in_attributes(uint64_t address, bool has_failed) {
  const Result<ObjectHeader> header = header_at(address);
  if (!header) return std::nullopt;
  for (const HeaderMessage* message : header->messages()) {
    if ((message->flags & HeaderMessage::kShared) != 0) continue;
    std::optional<std::string> newer;
    if (message->type == MessageType::attribute) newer = in_attribute(message->body, header->version() == 2);
    if (message->type == MessageType::attribute_info && has_failed) {
      Cursor in{message->body, 1};
      if ((in.number(1) & 1) != 0) in.skip(2);  // the greatest creation order
      const uint64_t heap = address_in(in);
      if (!in.failed) newer = in_heap(heap);
    }
    if (newer) return newer;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_newer_form(const ReadFile& read, uint64_t address, bool has_failed) {
  const auto superblock = read_superblock(read);
  if (!superblock) return std::nullopt;
  Search search(read, superblock->format);
  const uint64_t object = object_of(address);
  return object == address ? search.in_object(object) : search.in_attributes(object, has_failed);
}

std::optional<std::string> find_newer_superblock(const ReadFile& read) {
  constexpr uint64_t kNewest = 3;
  const auto superblock = read_superblock(read);
  if (!superblock || superblock->version <= kNewest || !superblock->is_checked) return std::nullopt;
  return newer_hdf5_reason(fmt::format("superblock version {}", superblock->version));
}

}  // namespace codecfs::hdf5
