#include "backends/zarr/source/open_array.h"

#include <algorithm>

#include "backends/zarr/metadata/zarr3_metadata.h"
#include "backends/zarr/source/chunk_listing.h"
#include "backends/zarr/source/hierarchy.h"
#include "backends/zarr/source/nczarr_changes.h"
#include "backends/zarr/source/transpose.h"
#include "filters/core/filter.h"
#include "filters/core/pipeline.h"
#include "model/json.h"
#include "model/limits.h"

namespace codecfs::zarr {
namespace {

/// Whether the chunks of an array with dtype "<U1" have one byte per element, according to the first stored chunk.
Result<bool> has_narrow_text(const Store& store, const std::string& key, const Array& array) {
  const ChunkGrid& grid = array.variable.grid;
  CODECFS_ASSIGN(auto status, store.stat(join_key(key, array.keys.name_of(grid, 0))));
  if (!status) {
    CODECFS_ASSIGN(const auto stored, list_chunks(store, key, grid, array.keys));
    if (stored.empty()) return false;
    CODECFS_ASSIGN(status, store.stat(join_key(key, array.keys.name_of(grid, stored.front()))));
  }
  return status && static_cast<uint64_t>(status->st_size) == grid.elements_per_chunk();
}

/// Determines how chunks of an array are written, or why they cannot be.
Result<> check_writable(const Hierarchy& hierarchy, OpenArray& array, bool may_write) {
  const Store& store = hierarchy.store();
  CODECFS_ASSIGN(const auto file, store.stat(join_key(array.key, hierarchy.file_of(EntryKind::variable))));
  array.mode = file ? file->st_mode & 0666 : 0666;
  const Variable& facts = array.array.variable;
  if (facts.unreadable) array.unchangeable = facts.unreadable;
  array.unwritable = array.unchangeable;
  if (array.array.shards && !array.unwritable) {
    if (const auto writable = check_rewritable(*array.array.shards); !writable)
      array.unwritable = array.unchangeable = in_file(called(array.key), writable.error()).error();
  }
  if (array.array.rectilinear && !array.unwritable)
    array.unwritable = array.unchangeable =
        Error{EOPNOTSUPP, fmt::format("{}: chunks of a rectilinear grid can only be read", called(array.key))};
  if (!may_write || array.unwritable) return {};
  for (const FilterStage& stage : facts.filters) {
    const filters::FilterPtr filter = filters::find_for(stage);
    if (filter && filter->encodes) continue;
    array.unwritable =
        Error{EOPNOTSUPP, fmt::format("{}: {} can only be read here", called(array.key), print_json(stage.codec))};
    return {};
  }
  if (const auto changeable = store.may_change(array.key); !changeable) array.unwritable = changeable.error();
  return {};
}

Result<std::optional<std::string>> read_text(const Store& store, const std::string& array, const char* file) {
  return read_metadata(store, join_key(array, file));
}

}  // namespace

const char* called(const std::string& key) { return key.empty() ? "the array" : key.c_str(); }

const char* group_called(const std::string& key) { return key.empty() ? "the root" : key.c_str(); }

std::unexpected<Error> in_file(const std::string& key, const Error& error) {
  return fail(error.code, "{}: {}", key, error.reason);
}

uint64_t max_stored_bytes(const Variable& variable) {
  // Filters enlarge a chunk a little, or its elements up to 16 times (int8 as complex128); objects may have any length,
  // and so may what plugins make.
  const uint64_t most =
      variable.chunk_bytes ? std::min(*variable.chunk_bytes, max_chunk_bytes() / 8) * 16 : max_chunk_bytes();
  const bool has_plugin = filters::has_plugin(variable.filters);
  return std::max(most + (uint64_t{64} << 10),
                  has_plugin ? filters::max_of_plugin(variable.chunk_bytes.value_or(max_chunk_bytes())) : 0);
}

namespace {

Result<std::shared_ptr<OpenArray>> load_zarr2(const Store& store, const std::string& key) {
  ArrayTexts texts;
  CODECFS_ASSIGN(auto zarray, read_text(store, key, kArrayFile));
  if (!zarray) return fail(ENOENT, "{}: no longer has a .zarray", key);
  texts.zarray = std::move(*zarray);
  CODECFS_ASSIGN(texts.zattrs, read_text(store, key, kAttributesFile));
  // Of NCZarr 4.8.0, which makes a .nczgroup in each group.
  const size_t slash = key.rfind('/');
  CODECFS_ASSIGN(const auto nczgroup, read_text(store, slash == key.npos ? "" : key.substr(0, slash), ".nczgroup"));
  const bool is_nczarr = nczgroup || key.empty();
  if (is_nczarr) {
    CODECFS_ASSIGN(texts.nczvar, read_text(store, key, ".nczvar"));
  }
  if (is_nczarr && !texts.nczvar) {
    CODECFS_ASSIGN(texts.nczvar, read_text(store, key, ".nczarray"));
  }
  if (texts.nczvar) {
    CODECFS_ASSIGN(texts.nczattr, read_text(store, key, ".nczattr"));
  }
  auto array = std::make_shared<OpenArray>();
  auto parsed = parse_array(texts);
  if (!parsed) return key.empty() ? pass_on(parsed) : in_file(key, parsed.error());
  array->array = std::move(*parsed);
  array->metadata = std::move(texts.zarray);
  return array;
}

Result<std::shared_ptr<OpenArray>> load_zarr3(const Store& store, const std::string& key) {
  CODECFS_ASSIGN(auto text, read_text(store, key, kZarr3File));
  if (!text) return fail(ENOENT, "{}: no longer has a zarr.json", key);
  auto array = std::make_shared<OpenArray>();
  auto parsed = parse_zarr3_array(*text);
  if (!parsed) return key.empty() ? pass_on(parsed) : in_file(key, parsed.error());
  array->array = std::move(*parsed);
  array->metadata = std::move(*text);
  return array;
}

}  // namespace

Result<std::shared_ptr<OpenArray>> load_array(const Hierarchy& hierarchy, const std::string& key, bool may_write) {
  const Store& store = hierarchy.store();
  CODECFS_ASSIGN(const auto array,
                 hierarchy.format() == ZarrFormat::v2 ? load_zarr2(store, key) : load_zarr3(store, key));
  array->key = key;
  Variable& facts = array->array.variable;
  if (array->array.may_be_narrow_text && facts.grid.count() > 0) {
    CODECFS_ASSIGN(const bool is_narrow, has_narrow_text(store, key, array->array));
    if (is_narrow) {
      narrow_text(array->array);
      array->unchangeable =
          Error{EOPNOTSUPP, fmt::format("{}: its characters are stored in one byte where .zarray says four, as early "
                                        "netCDF-C wrote them: this is only read",
                                        called(key))};
    }
  }
  if (!facts.unreadable) {
    auto pipeline = filters::Pipeline::make(facts.filters, filters::shape_of_stored_chunk(facts));
    if (pipeline) {
      array->pipeline = std::move(*pipeline);
    } else {
      facts.unreadable = std::move(pipeline.error());
    }
  }
  if (array->array.nczarr) {
    CODECFS_ASSIGN(facts.max_shape, nczarr_limits(hierarchy, array->array));
  }
  if (facts.unreadable && !key.empty()) facts.unreadable->reason = fmt::format("{}: {}", key, facts.unreadable->reason);
  array->max_stored = max_stored_bytes(facts);
  CODECFS_TRY(check_writable(hierarchy, *array, may_write));
  return array;
}

Result<Buffer> undo_filters(const OpenArray& array, const std::string& key, Buffer stored) {
  const Variable& facts = array.array.variable;
  if (stored.empty() && facts.chunk_bytes != 0)
    return fail(EIO, "{}: the chunk file is empty: its writer was interrupted, or the disk was full", key);
  auto decoded = array.pipeline->decode(std::move(stored));
  if (!decoded) return in_file(key, decoded.error());
  if (facts.chunk_bytes && decoded->size() != *facts.chunk_bytes)
    return fail(EIO, "{}: the chunk has {} bytes where {} are due", key, decoded->size(), *facts.chunk_bytes);
  return decoded;
}

Result<StoredChunk> apply_filters(const filters::Pipeline& pipeline, const std::string& key, Bytes chunk,
                                  uint64_t max_stored) {
  StoredChunk stored{.buffer = {}, .bytes = chunk};
  if (!pipeline.empty()) {
    auto encoded = pipeline.encode(chunk);
    if (!encoded) return in_file(key, encoded.error());
    if (encoded->filter_mask != 0) return fail(EIO, "{}: a filter was skipped, which Zarr cannot represent", key);
    stored.buffer = std::move(encoded->bytes);
    stored.bytes = stored.buffer.bytes();
  }
  if (stored.bytes.size() > max_stored)
    return fail(EINVAL, "{}: encoded to {} bytes, more than the {} that are read again", key, stored.bytes.size(),
                max_stored);
  return stored;
}

Result<Buffer> decode_chunk(const OpenArray& array, const std::string& key, Buffer stored) {
  CODECFS_ASSIGN(Buffer decoded, undo_filters(array, key, std::move(stored)));
  const std::vector<size_t>& order = array.array.variable.stored_order;
  if (order.empty()) return decoded;
  const Variable& facts = array.array.variable;
  const std::vector<uint64_t> shape = transposed_shape(facts.grid.chunks(), order);
  auto ordered = facts.type.kind == TypeKind::object
                     ? transpose_items(decoded.bytes(), shape, inverse_order(order))
                     : transpose(decoded.bytes(), shape, inverse_order(order), facts.type.size);
  if (!ordered) return in_file(key, ordered.error());
  return ordered;
}

Result<StoredChunk> encode_chunk(const OpenArray& array, const std::string& key, Bytes chunk) {
  const Variable& facts = array.array.variable;
  if (facts.chunk_bytes && chunk.size() != *facts.chunk_bytes)
    return fail(EINVAL, "{}: a chunk has {} bytes, not {}", key, *facts.chunk_bytes, chunk.size());
  if (!facts.chunk_bytes && chunk.size() > max_chunk_bytes())
    return fail(EINVAL, "{}: a chunk of {} bytes is over {}", key, chunk.size(), max_chunk_text());
  if (array.array.has_items) {
    if (const auto valid = check_items(chunk, facts.grid.elements_per_chunk()); !valid)
      return in_file(key, valid.error());
  }
  const std::vector<size_t>& order = array.array.variable.stored_order;
  if (order.empty()) return apply_filters(*array.pipeline, key, chunk, array.max_stored);

  auto ordered = array.array.has_items ? transpose_items(chunk, facts.grid.chunks(), order)
                                       : transpose(chunk, facts.grid.chunks(), order, facts.type.size);
  if (!ordered) return in_file(key, ordered.error());
  CODECFS_ASSIGN(StoredChunk stored, apply_filters(*array.pipeline, key, ordered->bytes(), array.max_stored));
  if (stored.buffer.empty() && !stored.bytes.empty()) {  // the bytes belong to `ordered`, which is destroyed here
    stored.buffer = std::move(*ordered);
    stored.bytes = stored.buffer.bytes();
  }
  return stored;
}

}  // namespace codecfs::zarr
