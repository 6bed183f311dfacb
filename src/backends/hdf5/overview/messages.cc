#include "backends/hdf5/overview/messages.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

#include "backends/hdf5/format/cursor.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/text.h"

namespace codecfs::hdf5 {
namespace {

constexpr uint64_t kMaxRank = 32;
constexpr uint64_t kMaxFilters = 32;
constexpr uint64_t kMaxTypeDepth = 32;
constexpr uint64_t kNewestKnownType = 5;  // version
constexpr uint64_t kUnlimited = UINT64_MAX;

size_t padded_to_8(size_t size) { return (size + 7) / 8 * 8; }

/// A name that ends with a NUL, which is skipped too, with its padding.
bool skip_name(Cursor& in, bool is_padded) {
  const Bytes rest = in.remaining();
  const auto end = std::ranges::find(rest, std::byte{0});
  if (end == rest.end()) return false;
  const auto size = static_cast<size_t>(end - rest.begin()) + 1;
  in.skip(is_padded ? padded_to_8(size) : size);
  return !in.failed;
}

/// Bytes of the offset of a member in a compound type of this size.
size_t offset_bytes(uint64_t size) { return (static_cast<size_t>(std::bit_width(size)) + 7) / 8; }

class DatatypeWalk {
 public:
  explicit DatatypeWalk(Bytes bytes) : in_{bytes} {}

  /// Skips a type, of `size` bytes; false if it is damaged or unknown.
  bool skip(uint64_t depth, uint64_t& size);
  [[nodiscard]] size_t at() const { return in_.at; }
  [[nodiscard]] DatatypeVersion version() const { return version_; }

 private:
  bool skip_member(uint64_t version, uint64_t compound_bytes, uint64_t depth);

  Cursor in_;
  DatatypeVersion version_{.newest = 0, .is_plausible = true};
};

bool DatatypeWalk::skip_member(uint64_t version, uint64_t compound_bytes, uint64_t depth) {
  if (!skip_name(in_, version < 3)) return false;
  in_.skip(version < 3 ? 4 : offset_bytes(compound_bytes));
  if (version == 1) {
    if (in_.number(1) != 0) return false;  // dimensions
    in_.skip(27);
  }
  uint64_t size = 0;
  return !in_.failed && skip(depth, size);
}

bool DatatypeWalk::skip(uint64_t depth, uint64_t& size) {
  const uint64_t kind = in_.number(1);
  const uint64_t bits = in_.number(3);
  size = in_.number(4);
  const uint64_t version = kind >> 4;
  if (!in_.failed) version_.newest = std::max(version_.newest, version);
  if (in_.failed || depth > kMaxTypeDepth || version < 1 || version > kNewestKnownType || size == 0) return false;
  if (version > 3 && (kind & 15) < 6) version_.is_plausible = false;
  uint64_t inner = 0;
  switch (kind & 15) {
    case 0: in_.skip(4); break;   // integer
    case 1: in_.skip(12); break;  // floating
    case 3: break;                // string
    case 4: in_.skip(4); break;   // bits
    case 5: {                     // opaque, with a tag
      if ((bits & 0xff) % 8 != 0) return false;
      in_.skip(bits & 0xff);
      break;
    }
    case 6: {  // compound
      const uint64_t members = bits & 0xffff;
      if (members == 0) return false;
      for (uint64_t i = 0; i < members; ++i)
        if (!skip_member(version, size, depth + 1)) return false;
      break;
    }
    case 7: {  // reference; those of HDF5 before 1.12 have no newer form
      if (version > 3 && (bits & 15) < 2) version_.is_plausible = false;
      break;
    }
    case 8: {  // enumeration
      if (!skip(depth + 1, inner)) return false;
      const uint64_t members = bits & 0xffff;
      if (members == 0) return false;
      for (uint64_t i = 0; i < members; ++i)
        if (!skip_name(in_, version < 3)) return false;
      in_.skip(members * inner);
      break;
    }
    case 9: {  // of variable length; its version is that of its elements
      if (version > 3 && Cursor(in_).number(1) >> 4 < version) version_.is_plausible = false;
      return skip(depth + 1, inner);
    }
    case 10: {  // array
      const uint64_t rank = in_.number(1);
      if (version == 1 || rank == 0 || rank > kMaxRank) return false;
      if (version < 3) in_.skip(3);
      in_.skip(4 * rank * (version < 3 ? 2 : 1));
      return !in_.failed && skip(depth + 1, inner);
    }
    case 11: return version >= 5 && skip(depth + 1, inner);  // complex
    default: return false;
  }
  return !in_.failed;
}

}  // namespace

std::optional<size_t> datatype_bytes(Bytes bytes) {
  DatatypeWalk walk(bytes);
  uint64_t size = 0;
  if (!walk.skip(0, size)) return std::nullopt;
  return walk.at();
}

DatatypeVersion datatype_version(Bytes bytes) {
  DatatypeWalk walk(bytes);
  uint64_t size = 0;
  const bool is_whole = walk.skip(0, size);
  DatatypeVersion version = walk.version();
  // A message is padded to 8 bytes at most.
  version.is_plausible = version.is_plausible && is_whole && bytes.size() - walk.at() < 8;
  return version;
}

std::optional<Dataspace> parse_dataspace(Bytes bytes) {
  Cursor in{bytes};
  const uint64_t version = in.number(1);
  const uint64_t rank = in.number(1);
  const uint64_t flags = in.number(1);
  uint64_t kind = rank == 0 ? 0 : 1;
  if (version == 1)
    in.skip(5);
  else if (version == 2)
    kind = in.number(1);
  else
    return std::nullopt;
  if (in.failed || rank > kMaxRank || flags > 1 || kind > 2 || (kind == 1) != (rank > 0)) return std::nullopt;
  Dataspace space;
  space.is_null = kind == 2;
  for (uint64_t d = 0; d < rank; ++d) {
    space.dims.push_back(in.number(8));
    if (__builtin_mul_overflow(space.count, space.dims.back(), &space.count)) return std::nullopt;
  }
  for (uint64_t d = 0; d < rank; ++d) {
    const uint64_t most = flags == 1 ? in.number(8) : space.dims[d];
    if (most < space.dims[d]) return std::nullopt;
    space.most.push_back(flags == 1 && most == kUnlimited ? std::nullopt : std::optional(most));
  }
  if (in.failed) return std::nullopt;
  return space;
}

std::optional<FillMessage> parse_fill(Bytes bytes) {
  Cursor in{bytes};
  const uint64_t version = in.number(1);
  uint64_t allocation = 0;
  uint64_t time = 0;
  bool has_size = false;
  FillMessage fill;
  if (version == 2) {
    allocation = in.number(1);
    time = in.number(1);
    const uint64_t defined = in.number(1);
    if (defined > 1) return std::nullopt;
    fill.is_undefined = defined == 0;
    has_size = defined == 1;
  } else if (version == 3) {
    const uint64_t flags = in.number(1);
    if (flags > 0x2f) return std::nullopt;  // also a value beside "undefined"
    allocation = flags & 3;
    time = flags >> 2 & 3;
    fill.is_undefined = (flags & 0x10) != 0;
    has_size = (flags & 0x20) != 0;
  } else {
    return std::nullopt;
  }
  if (in.failed || allocation == 0 || allocation > 3 || time > 2) return std::nullopt;
  fill.is_written = time != 1;
  const uint64_t size = has_size ? in.number(4) : 0;
  if (version == 3 && has_size && size == 0) return std::nullopt;
  fill.value = in.take(size);
  if (in.failed) return std::nullopt;
  return fill;
}

std::optional<Bytes> parse_old_fill(Bytes bytes) {
  Cursor in{bytes};
  const Bytes value = in.take(in.number(4));
  if (in.failed) return std::nullopt;
  return value;
}

std::optional<LayoutMessage> parse_layout(Bytes bytes) {
  Cursor in{bytes};
  LayoutMessage layout;
  const uint64_t version = in.number(1);
  const uint64_t kind = in.number(1);
  if (version < 3 || version > kNewestLayout) return std::nullopt;
  if (kind == 0) {
    layout.storage = Storage::compact;
    layout.bytes = in.number(2);
    in.skip(layout.bytes);
  } else if (kind == 1) {
    layout.address = in.address();
    layout.bytes = in.number(8);
  } else if (kind == 2) {
    layout.storage = Storage::chunked;
    const uint64_t flags = version >= 4 ? in.number(1) : 0;
    const uint64_t dimensions = in.number(1);
    if (in.failed || (flags & ~uint64_t{2}) != 0 || dimensions < 2 || dimensions > kMaxRank + 1) return std::nullopt;
    if (version == 3) layout.address = in.address();
    const uint64_t size = version >= 4 ? in.number(1) : 4;
    if (size < 1 || size > 8) return std::nullopt;
    for (uint64_t d = 0; d + 1 < dimensions; ++d) {
      layout.chunk.push_back(in.number(size));
      if (layout.chunk.back() == 0) return std::nullopt;
    }
    layout.element = in.number(size);
    if (version >= 4) {
      layout.has_wide_sizes = version == 5;
      const uint64_t index = in.number(1);
      if (index < 1 || index > 5) return std::nullopt;
      layout.index = static_cast<LayoutMessage::Index>(index);
      layout.is_single_filtered = flags == 2;
      if (flags == 2 && index != 1) return std::nullopt;
      switch (layout.index) {
        case LayoutMessage::Index::single:
          if (flags == 2) {
            layout.single_bytes = in.number(8);
            layout.single_mask = static_cast<uint32_t>(in.number(4));
          }
          break;
        case LayoutMessage::Index::fixed_array: layout.page_bits = in.number(1); break;
        case LayoutMessage::Index::extensible_array: in.skip(5); break;  // the header of the index has them, too
        case LayoutMessage::Index::tree: in.skip(6); break;              // as for extensible_array
        default: break;
      }
      layout.address = in.address();
    }
  } else {
    return std::nullopt;
  }
  if (in.failed) return std::nullopt;
  return layout;
}

std::optional<std::vector<FilterStage>> parse_filters(Bytes bytes, std::optional<std::string> (*name_of)(uint32_t id)) {
  Cursor in{bytes};
  const uint64_t version = in.number(1);
  const uint64_t count = in.number(1);
  if (version == 1)
    in.skip(6);
  else if (version != 2)
    return std::nullopt;
  if (in.failed || count == 0 || count > kMaxFilters) return std::nullopt;
  std::vector<FilterStage> stages;
  for (uint64_t i = 0; i < count; ++i) {
    constexpr uint64_t kOwnFilters = 256;  // whose names version 2 does not store
    constexpr size_t kLongestName = 256;   // of which libhdf5 tells all
    FilterStage stage;
    stage.id = static_cast<uint32_t>(in.number(2));
    const uint64_t name_bytes = version == 1 || stage.id >= kOwnFilters ? in.number(2) : 0;
    const uint64_t flags = in.number(2);
    const uint64_t parameters = in.number(2);
    const Bytes name = in.take(name_bytes);
    if (in.failed || flags > 1 || name_bytes >= kLongestName || (version == 1 && name_bytes % 8 != 0))
      return std::nullopt;
    stage.optional = flags == 1;
    stage.has_flag = stage.is_complete = true;
    const std::string_view text(reinterpret_cast<const char*>(name.data()), name.size());
    if (name_bytes > 0 && text.find('\0') == std::string_view::npos) return std::nullopt;
    stage.name = as_utf8(text.substr(0, text.find('\0')));
    if (stage.name.empty()) {
      std::optional<std::string> known = name_of(stage.id);
      if (!known) return std::nullopt;
      stage.name = *std::move(known);
    }
    for (uint64_t p = 0; p < parameters && !in.failed; ++p)
      stage.parameters.push_back(static_cast<uint32_t>(in.number(4)));
    if (version == 1 && parameters % 2 != 0) in.skip(4);
    if (in.failed) return std::nullopt;
    stages.push_back(std::move(stage));
  }
  return stages;
}

std::optional<AttributeMessage> parse_attribute(Bytes bytes) {
  Cursor in{bytes};
  const uint64_t version = in.number(1);
  const uint64_t flags = in.number(1);  // version 1: reserved
  const uint64_t name_bytes = in.number(2);
  const uint64_t type_bytes = in.number(2);
  const uint64_t space_bytes = in.number(2);
  if (version == 3 && in.number(1) > 1) return std::nullopt;  // character set
  if (in.failed || version < 1 || version > 3 || flags != 0 || name_bytes < 2) return std::nullopt;
  const auto part = [&](uint64_t size) {
    const Bytes taken = in.take(size);
    if (version == 1) in.skip(padded_to_8(size) - size);
    return taken;
  };
  const Bytes name = part(name_bytes);
  const Bytes type = part(type_bytes);
  const Bytes space = part(space_bytes);
  if (in.failed) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(name.data()), name.size());
  if (text.find('\0') != text.size() - 1) return std::nullopt;
  const std::optional<size_t> encoded = datatype_bytes(type);
  std::optional<Dataspace> dataspace = parse_dataspace(space);
  if (!encoded || !dataspace) return std::nullopt;
  AttributeMessage attribute{text.substr(0, text.size() - 1), type.first(*encoded), *std::move(dataspace), {}};
  const uint64_t element = Cursor{type, 4}.number(4);
  uint64_t size = 0;
  if (!attribute.space.is_null && __builtin_mul_overflow(attribute.space.count, element, &size)) return std::nullopt;
  attribute.data = in.take(size);
  if (in.failed) return std::nullopt;
  return attribute;
}

}  // namespace codecfs::hdf5
