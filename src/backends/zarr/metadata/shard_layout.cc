#include "backends/zarr/metadata/shard_layout.h"

#include <algorithm>
#include <numeric>

#include "base/endian.h"
#include "filters/codecs/crc32c.h"
#include "filters/core/encoded_type.h"
#include "filters/core/filter.h"
#include "model/json.h"

namespace codecfs::zarr {
namespace {

/// Axis i of the permuted coordinates is axis order[i].
size_t axis_of(const std::vector<size_t>& order, size_t i) { return order.empty() ? i : order[i]; }

/// Strides of the entries of an index, in stored 64-bit numbers: one for each axis of the index, and one for the pair
/// of offset and size.
std::vector<uint64_t> stored_strides(const ShardLevel& level) {
  const size_t rank = level.cells.size();
  const auto length = [&](size_t axis) { return axis == rank ? 2 : level.cells[axis_of(level.order, axis)]; };
  std::vector<uint64_t> strides(rank + 1);
  uint64_t stride = 1;
  for (size_t i = rank + 1; i-- > 0;) {
    const size_t axis = axis_of(level.index.order, i);
    strides[axis] = stride;
    stride *= length(axis);
  }
  return strides;
}

/// Calls visit(position, first, second) with the stored places of an entry's two numbers.
template <class Visit>
void for_each_entry(const ShardLevel& level, const Visit& visit) {
  if (level.index.order.empty()) {
    for (uint64_t i = 0; i < level.count; ++i) visit(i, i * 2, i * 2 + 1);
    return;
  }
  const std::vector<uint64_t> strides = stored_strides(level);
  const size_t rank = level.cells.size();
  for (uint64_t i = 0; i < level.count; ++i) {
    uint64_t place = 0;
    uint64_t rest = i;
    for (size_t axis = rank; axis-- > 0;) {
      const uint64_t length = level.cells[axis_of(level.order, axis)];
      place += rest % length * strides[axis];
      rest /= length;
    }
    visit(i, place, place + strides[rank]);
  }
}

Result<ShardIndexForm> parse_index_form(const Json& configuration, size_t rank, std::optional<Error>& unreadable) {
  ShardIndexForm form;
  if (const auto location = configuration.find("index_location"); location != configuration.end()) {
    if (*location != "start" && *location != "end")
      return fail(EINVAL, "\"index_location\": {} is neither start nor end", print_json(*location));
    form.is_at_start = *location == "start";
  }
  const auto listed = configuration.find("index_codecs");
  if (listed == configuration.end()) {
    form.has_checksum = true;
    return form;
  }
  DataType number;
  number.kind = TypeKind::unsigned_int;
  number.order = ByteOrder::little;
  number.size = 8;
  CODECFS_ASSIGN(const filters::Zarr3Codecs codecs, filters::parse_zarr3_codecs(*listed, number, rank + 1));
  form.byte_order = codecs.byte_order.value_or(ByteOrder::little);
  form.order = codecs.order;
  for (const FilterStage& stage : codecs.stages) {
    if (stage.codec == Json{{"id", "crc32c"}} && !form.has_checksum) {
      form.has_checksum = true;
    } else if (!unreadable) {
      unreadable = Error{EOPNOTSUPP, fmt::format("codec {} of a shard's index is not supported: the size of an index "
                                                 "must be known",
                                                 print_json(stage.codec))};
    }
  }
  if (codecs.sharding || !codecs.stages_before.empty())
    return fail(EINVAL, "\"index_codecs\": an index cannot be sharded");
  if (codecs.unreadable && !unreadable) unreadable = codecs.unreadable;
  return form;
}

/// Codecs that may stand in front of sharding_indexed. They treat each element alone, so that the chunks in a shard can
/// be decoded one by one, and Zarr v3 defines what they make of the fill value, which stands for absent chunks.
constexpr std::string_view kElementwise[] = {filters::kCastValue, filters::kScaleOffset, "bitround"};

/// The codecs in front of sharding_indexed, but for transpose: for each chunk in a shard they are the first ones.
/// `stages`: of them.
Result<Json> codecs_before_sharding(const Json& list, std::span<const FilterStage> stages) {
  for (const FilterStage& stage : stages)
    if (std::ranges::find(kElementwise, stage.codec->value("id", std::string())) == std::end(kElementwise))
      return fail(EOPNOTSUPP, "codec {} in front of sharding_indexed is not supported", print_json(stage.codec));
  Json codecs = Json::array();
  for (const Json& codec : list) {
    const Json name = codec.is_object() ? codec.value("name", Json()) : codec;
    if (name == "sharding_indexed") break;
    if (name != "transpose") codecs.push_back(codec);
  }
  return codecs;
}

Result<std::vector<uint64_t>> parse_inner_shape(const Json& configuration, const std::vector<uint64_t>& shard,
                                                const std::vector<size_t>& order) {
  const Json shape = configuration.value("chunk_shape", Json());
  const auto is_length = [](const Json& item) { return item.is_number_unsigned() && item != 0; };
  if (!shape.is_array() || shape.size() != shard.size() || !std::ranges::all_of(shape, is_length))
    return fail(EINVAL, "\"chunk_shape\" {} of sharding_indexed is not one length per dimension", print_json(shape));
  std::vector<uint64_t> inner(shard.size());
  for (size_t i = 0; i < shard.size(); ++i) inner[axis_of(order, i)] = shape[i].get<uint64_t>();
  for (size_t axis = 0; axis < shard.size(); ++axis)
    if (shard[axis] % inner[axis] != 0)
      return fail(EINVAL, "\"chunk_shape\" {} of sharding_indexed does not divide its shards", print_json(shape));
  return inner;
}

}  // namespace

uint64_t ShardLevel::position_of(std::span<const uint64_t> coordinates) const {
  uint64_t position = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    const size_t axis = axis_of(order, i);
    position = position * cells[axis] + coordinates[axis];
  }
  return position;
}

void ShardLevel::coordinates_of(uint64_t position, std::span<uint64_t> coordinates) const {
  for (size_t i = cells.size(); i-- > 0;) {
    const size_t axis = axis_of(order, i);
    coordinates[axis] = position % cells[axis];
    position /= cells[axis];
  }
}

Result<ShardedCodecs> parse_sharded_codecs(const Json& list, const DataType& type, const std::vector<uint64_t>& shape,
                                           const std::vector<uint64_t>& chunks) {
  constexpr size_t kMaxLevels = 8;
  const size_t rank = shape.size();
  ShardedCodecs result;
  result.chunks = chunks;
  ShardLayout layout;
  std::vector<size_t> order;
  std::optional<Error> unreadable;
  Json codecs = list;
  while (true) {
    CODECFS_ASSIGN(filters::Zarr3Codecs parsed, filters::parse_zarr3_codecs(codecs, type, rank));
    if (!parsed.order.empty()) {
      std::vector<size_t> composed(rank);
      for (size_t i = 0; i < rank; ++i) composed[i] = axis_of(order, parsed.order[i]);
      order = std::move(composed);
    }
    if (parsed.unreadable && !unreadable) unreadable = parsed.unreadable;
    // Behind it the shard has other axes.
    const bool is_reshaped = std::ranges::any_of(parsed.stages_before, [](const FilterStage& stage) {
      return stage.codec->value("id", Json()) == filters::kReshape;
    });
    if (is_reshaped && !unreadable)
      unreadable = Error{EOPNOTSUPP, "codec reshape in front of sharding_indexed is not supported"};
    if (!parsed.sharding || is_reshaped) {
      result.codecs = std::move(parsed);
      break;
    }
    if (layout.levels.size() == kMaxLevels) return fail(EINVAL, "\"codecs\": more than {} nested shards", kMaxLevels);
    const Json& configuration = **parsed.sharding;
    ShardLevel level;
    Result<Json> first = codecs_before_sharding(codecs, parsed.stages_before);
    if (!first && !unreadable) unreadable = std::move(first.error());
    CODECFS_ASSIGN(const auto inner, parse_inner_shape(configuration, result.chunks, order));
    for (size_t axis = 0; axis < rank; ++axis) {
      level.cells.push_back(result.chunks[axis] / inner[axis]);
      if (__builtin_mul_overflow(level.count, level.cells.back(), &level.count) || level.count > kMaxInnerChunks)
        return fail(EINVAL, "\"codecs\": a shard of more than {} chunks", kMaxInnerChunks);
    }
    level.order = order;
    CODECFS_ASSIGN(level.index, parse_index_form(configuration, rank, unreadable));
    level.stages = std::move(parsed.stages);
    layout.levels.push_back(std::move(level));
    result.chunks = inner;
    Json below = configuration.value("codecs", Json());
    if (first && below.is_array()) {
      for (Json& codec : below) first->push_back(std::move(codec));
      below = *std::move(first);
    }
    codecs = std::move(below);
  }
  result.codecs.order = std::ranges::is_sorted(order) ? std::vector<size_t>() : order;
  result.codecs.unreadable = unreadable;
  if (layout.levels.empty()) return result;
  auto grid = ChunkGrid::make(shape, chunks);
  if (!grid) return std::unexpected(grid.error());
  layout.grid = std::move(*grid);
  result.layout = std::move(layout);
  return result;
}

bool are_same_shards(const std::optional<ShardLayout>& one, const std::optional<ShardLayout>& other) {
  if (!one || !other) return !one && !other;
  const auto are_same_levels = [](const ShardLevel& a, const ShardLevel& b) {
    return a.cells == b.cells && a.order == b.order && a.index == b.index &&
           std::ranges::equal(a.stages, b.stages, {}, &FilterStage::codec, &FilterStage::codec);
  };
  return std::ranges::equal(one->levels, other->levels, are_same_levels);
}

Result<> check_rewritable(const ShardLayout& layout) {
  for (const ShardLevel& level : layout.levels)
    for (const FilterStage& stage : level.stages) {
      const filters::FilterPtr filter = filters::find_for(stage);
      if (!filter || !filter->encodes)
        return fail(EOPNOTSUPP, "shards with the codec {} can only be read here", print_json(stage.codec));
    }
  return {};
}

Result<std::vector<ShardEntry>> decode_shard_index(const ShardLevel& level, Bytes index, uint64_t shard_bytes) try {
  if (index.size() != level.index_bytes())
    return fail(EIO, "the index of the shard has {} bytes, not {}", index.size(), level.index_bytes());
  if (level.index.has_checksum) {
    const Bytes numbers = index.first(index.size() - 4);
    const auto stored = load_le<uint32_t>(index.data() + numbers.size());
    const uint32_t computed = filters::codecs::crc32c_of(numbers.data(), numbers.size());
    if (stored != computed)
      return fail(EIO, "the checksum of the shard's index is {:08x}, not {:08x} as stored: the shard is damaged",
                  computed, stored);
  }
  const auto number = [&](uint64_t place) {
    const std::byte* const at = index.data() + place * 8;
    return level.index.byte_order == ByteOrder::big ? load_be<uint64_t>(at) : load_le<uint64_t>(at);
  };
  std::vector<ShardEntry> entries(level.count);
  std::optional<uint64_t> bad;
  for_each_entry(level, [&](uint64_t position, uint64_t first, uint64_t second) {
    ShardEntry& entry = entries[position];
    entry = {.offset = number(first), .size = number(second)};
    if (entry.offset == ShardEntry::kAbsent && entry.size == ShardEntry::kAbsent) return;
    if (entry.offset > shard_bytes || entry.size > shard_bytes - entry.offset) bad = bad.value_or(position);
  });
  if (bad)
    return fail(EIO, "entry {} of the shard's index, {} bytes at {}, is not in the shard of {} bytes: it is damaged",
                *bad, entries[*bad].size, entries[*bad].offset, shard_bytes);
  return entries;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory for the index of {} chunks", level.count);
}

Result<Buffer> encode_shard_index(const ShardLevel& level, std::span<const ShardEntry> entries) {
  CODECFS_ASSIGN(Buffer index, Buffer::allocate(level.index_bytes()));
  const auto put = [&](uint64_t place, uint64_t number) {
    std::byte* const at = index.data() + place * 8;
    if (level.index.byte_order == ByteOrder::big) {
      store_be(at, number);
    } else {
      store_le(at, number);
    }
  };
  for_each_entry(level, [&](uint64_t position, uint64_t first, uint64_t second) {
    put(first, entries[position].offset);
    put(second, entries[position].size);
  });
  if (level.index.has_checksum) {
    const size_t size = level.count * 16;
    store_le(index.data() + size, filters::codecs::crc32c_of(index.data(), size));
  }
  return index;
}

}  // namespace codecfs::zarr
