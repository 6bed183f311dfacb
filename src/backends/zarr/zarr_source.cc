// A Source over a Zarr v2 directory. Nothing is read before it is asked for: a group is its directory, an array its
// .zarray and .zattrs, a chunk one file, each found by path from the descriptor of the store. What costs time to make
// is kept: the parsed metadata and the pipeline of the arrays used last.
//
// A chunk is encoded and its file made in the calling thread, with no lock held; directory_writer.h tells how.

#include "backends/zarr/zarr_source.h"

#include <fcntl.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "backends/names.h"
#include "backends/zarr/chunk_listing.h"
#include "backends/zarr/directory_store.h"
#include "backends/zarr/directory_writer.h"
#include "backends/zarr/metadata.h"
#include "backends/zarr/transpose.h"
#include "base/log.h"
#include "base/lru_map.h"
#include "filters/filter.h"
#include "filters/pipeline.h"

namespace codecfs {
namespace {

using zarr::DirectoryStore;
using zarr::join_key;

constexpr uint64_t kMaxMetadataBytes = uint64_t{64} << 20;
constexpr size_t kKeptArrays = 256;
constexpr const char* kArrayFile = ".zarray";
/// What makes a directory a group; the second is what NCZarr 4.8.0 writes.
constexpr const char* kGroupFiles[] = {".zgroup", ".nczgroup"};

/// An object that somebody has looked up.
struct Object {
  std::string key;
  EntryKind kind;
};

/// Object ids are places in a list that only grows: one entry for every object looked up.
class ObjectTable {
 public:
  ObjectId id_of(const std::string& key, EntryKind kind) {
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = ids_.try_emplace(key, objects_.size());
    if (is_new) {
      objects_.push_back({key, kind});
    } else {
      objects_[place->second].kind = kind;
    }
    return place->second;
  }

  Result<Object> get(ObjectId id) const {
    const std::shared_lock lock(mutex_);
    if (id >= objects_.size()) return fail(ENOENT, "no object has the number {}", id);
    return objects_[id];
  }

 private:
  mutable std::shared_mutex mutex_;  // guards what follows
  std::deque<Object> objects_;
  std::unordered_map<std::string, ObjectId> ids_;
};

/// An array made ready for reading and writing.
struct OpenArray {
  std::string key;
  zarr::Array array;
  std::optional<filters::Pipeline> pipeline;  // none where the variable is unreadable
  std::optional<Error> unwritable;            // why no chunk can be stored
  uint64_t max_stored = 0;                    // bytes that a chunk file can have
  mode_t mode = 0;                            // permissions of a new chunk file
};

/// How messages call an array.
const char* called(const std::string& key) { return key.empty() ? "the array" : key.c_str(); }

std::unexpected<Error> in_file(const std::string& key, const Error& error) {
  return fail(error.code, "{}: {}", key, error.reason);
}

class ZarrSource final : public Source {
 public:
  static Result<std::unique_ptr<Source>> open(const std::string& path, bool may_write, FileIo& io) {
    CODECFS_ASSIGN(DirectoryStore store, DirectoryStore::open(path));
    auto source = std::unique_ptr<ZarrSource>(new ZarrSource(std::move(store), io));
    if (!may_write) {
      source->unwritable_ = Error{EROFS, fmt::format("{}: was opened only to be read", path)};
    } else if (const auto changeable = source->store_.may_change(""); !changeable) {
      source->unwritable_ = changeable.error();
    }
    CODECFS_ASSIGN(const std::optional<EntryKind> kind, source->kind_of(""));
    CODECFS_ASSIGN(const bool is_nczarr, source->store_.has_file(".nczarr"));
    if (!kind && !is_nczarr)
      return fail(EINVAL, "{}: no Zarr v2 store (there is neither .zgroup nor .zarray in it)", path);
    source->root_.kind = kind.value_or(EntryKind::group);
    source->root_.object = source->objects_.id_of("", source->root_.kind);
    if (source->root_.kind == EntryKind::group) {
      CODECFS_ASSIGN(const auto text, source->read_text(".zgroup"));
      if (text) {
        if (const auto valid = zarr::check_group(*text); !valid) return in_file(path, valid.error());
      }
    } else if (const auto root = source->load("", source->root_.object); !root) {
      return in_file(path, root.error());
    }
    return source;
  }

  [[nodiscard]] const struct stat& status() const override { return store_.status(); }
  [[nodiscard]] struct statvfs filesystem() const override { return store_.filesystem(); }
  [[nodiscard]] std::string format() const override { return "Zarr v2"; }
  [[nodiscard]] bool chains_for_numcodecs() const override { return true; }
  [[nodiscard]] Entry root() const override { return root_; }

  Result<std::vector<Entry>> list(ObjectId group) override {
    CODECFS_ASSIGN(const Object object, group_of(group));
    std::vector<Entry> entries;
    CODECFS_TRY(for_each_object(object.key, [&](std::string_view name, EntryKind kind) {
      entries.push_back(entry_of(object.key, name, kind));
      return true;
    }));
    std::ranges::sort(entries, {}, &Entry::name);
    return entries;
  }

  Result<Entry> find(ObjectId group, std::string_view name) override {
    CODECFS_ASSIGN(const Object object, group_of(group));
    const auto not_there = [&] {
      return fail(ENOENT, "{}: no group or array of that name", join_key(object.key, name));
    };
    if (is_cut_name(name)) {
      std::optional<Entry> found;
      CODECFS_TRY(for_each_object(object.key, [&](std::string_view file_name, EntryKind kind) {
        if (escape_name(file_name) == name) found = entry_of(object.key, file_name, kind);
        return !found;
      }));
      if (!found) return not_there();
      return std::move(*found);
    }
    const auto file_name = unescape_name(name);
    // A name that no directory entry can have must not lead out of the group ("%2E." is "..").
    if (!file_name || file_name->empty() || *file_name == "." || *file_name == ".." ||
        file_name->find_first_of(std::string_view("/\0", 2)) != std::string::npos)
      return not_there();
    CODECFS_ASSIGN(const auto kind, kind_of(join_key(object.key, *file_name)));
    if (!kind) return not_there();
    CODECFS_ASSIGN(const bool is_loop, leads_back(object.key, join_key(object.key, *file_name)));
    if (is_loop) return not_there();
    return entry_of(object.key, *file_name, *kind);
  }

  Result<std::vector<Attribute>> group_attributes(ObjectId group) override {
    CODECFS_ASSIGN(const Object object, group_of(group));
    CODECFS_ASSIGN(const auto text, read_text(join_key(object.key, ".zattrs")));
    if (!text) return std::vector<Attribute>();
    auto attributes = zarr::parse_attributes(*text);
    if (!attributes) return in_file(object.key, attributes.error());
    return attributes;
  }

  Result<VariablePtr> variable(ObjectId variable) override {
    CODECFS_ASSIGN(const Object object, objects_.get(variable));
    if (object.kind != EntryKind::variable) return fail(ENOENT, "{}: is no array", object.key);
    CODECFS_ASSIGN(const auto array, load(object.key, variable));
    return VariablePtr(array, &array->array.variable);
  }

  Result<ChunkInfo> locate(ObjectId variable, uint64_t number) override {
    CODECFS_ASSIGN(const auto array, open_array(variable));
    CODECFS_ASSIGN(const std::string key, chunk_key(*array, number));
    CODECFS_ASSIGN(const auto status, store_.stat(key));
    if (!status || !S_ISREG(status->st_mode)) return ChunkInfo{};
    return ChunkInfo{
        .stored = true, .stored_size = static_cast<uint64_t>(status->st_size), .offset = 0, .filter_mask = 0};
  }

  Result<std::vector<uint64_t>> stored_chunks(ObjectId variable, uint64_t from, size_t limit) override {
    CODECFS_ASSIGN(const auto array, open_array(variable));
    return listings_.next(store_, array->key, array->array.variable.grid, array->array.separator, from, limit);
  }

  Result<Buffer> read_chunk(ObjectId variable, uint64_t number) override {
    CODECFS_ASSIGN(const auto array, open_array(variable));
    const Variable& facts = array->array.variable;
    if (facts.unreadable) return std::unexpected(*facts.unreadable);
    CODECFS_ASSIGN(const std::string key, chunk_key(*array, number));
    CODECFS_ASSIGN(auto stored, store_.read(key, array->max_stored));
    if (!stored) return fail(ENOENT, "{}: is not stored", key);
    if (stored->empty() && facts.chunk_bytes != 0)
      return fail(EIO, "{}: the chunk file is empty: its writer was interrupted, or the disk was full", key);

    auto decoded = array->pipeline->decode(std::move(*stored));
    if (!decoded) return in_file(key, decoded.error());
    if (facts.chunk_bytes && decoded->size() != *facts.chunk_bytes)
      return fail(EIO, "{}: the chunk has {} bytes where {} are due", key, decoded->size(), *facts.chunk_bytes);
    if (!array->array.fortran_order) return decoded;
    auto ordered = facts.type.kind == TypeKind::object
                       ? zarr::fortran_to_c_items(decoded->bytes(), facts.grid.chunks())
                       : zarr::fortran_to_c(decoded->bytes(), facts.grid.chunks(), facts.type.size);
    if (!ordered) return in_file(key, ordered.error());
    return ordered;
  }

  Result<> writable() override {
    if (unwritable_) return std::unexpected(*unwritable_);
    return {};
  }

  Result<> variable_writable(ObjectId variable) override {
    CODECFS_ASSIGN(const auto array, writable_array(variable));
    return {};
  }

  Result<> begin_writing() override {
    CODECFS_TRY(writable());
    return writer_.begin();
  }

  Result<> write_chunk(ObjectId variable, uint64_t number, Bytes chunk) override {
    CODECFS_ASSIGN(const auto array, writable_array(variable));
    CODECFS_ASSIGN(const std::string name, name_to_change(*array, number));
    const std::string key = join_key(array->key, name);
    const Variable& facts = array->array.variable;
    if (facts.chunk_bytes && chunk.size() != *facts.chunk_bytes)
      return fail(EINVAL, "{}: a chunk has {} bytes, not {}", key, *facts.chunk_bytes, chunk.size());
    if (!facts.chunk_bytes && chunk.size() > zarr::kMaxChunkBytes)
      return fail(EINVAL, "{}: a chunk of {} bytes is over the limit of {}", key, chunk.size(), zarr::kMaxChunkBytes);
    if (array->array.has_items) {
      if (const auto valid = zarr::check_items(chunk, facts.grid.elements_per_chunk()); !valid)
        return in_file(key, valid.error());
    }

    Buffer ordered;
    if (array->array.fortran_order) {
      std::vector<uint64_t> reversed(facts.grid.chunks().rbegin(), facts.grid.chunks().rend());
      auto turned = array->array.has_items ? zarr::fortran_to_c_items(chunk, reversed)
                                           : zarr::fortran_to_c(chunk, reversed, facts.type.size);
      if (!turned) return in_file(key, turned.error());
      ordered = std::move(*turned);
      chunk = ordered.bytes();
    }
    filters::EncodedChunk encoded;
    if (!array->pipeline->empty()) {
      auto done = array->pipeline->encode(chunk);
      if (!done) return in_file(key, done.error());
      if (done->filter_mask != 0)
        return fail(EIO, "{}: a filter was left out, and Zarr has no way to tell readers so", key);
      encoded = std::move(*done);
      chunk = encoded.bytes.bytes();
    }
    if (chunk.size() > array->max_stored)
      return fail(EINVAL, "{}: encoded to {} bytes, more than the {} that are read again", key, chunk.size(),
                  array->max_stored);
    CODECFS_TRY(writer_.write(array->key, name, chunk, array->mode));
    listings_.refresh(store_, array->key, key, number);
    return {};
  }

  Result<> remove_chunk(ObjectId variable, uint64_t number) override {
    CODECFS_ASSIGN(const auto array, writable_array(variable));
    CODECFS_ASSIGN(const std::string name, name_to_change(*array, number));
    CODECFS_TRY(writer_.remove(array->key, name));
    listings_.refresh(store_, array->key, join_key(array->key, name), number);
    return {};
  }

  Result<> commit() override { return writer_.commit(); }

  Result<> finish() override {
    Result<> committed = commit();
    writer_.end();
    return committed;
  }

 private:
  using ArrayPtr = std::shared_ptr<const OpenArray>;

  ZarrSource(DirectoryStore store, FileIo& io) : store_(std::move(store)), writer_(store_, io) {}

  Result<Object> group_of(ObjectId id) const {
    CODECFS_ASSIGN(Object object, objects_.get(id));
    if (object.kind != EntryKind::group) return fail(ENOTDIR, "{}: is no group", object.key);
    return object;
  }

  /// What the directory of that name is, by the files in it. One that is both an array and a group is an array.
  Result<std::optional<EntryKind>> kind_of(const std::string& key) const {
    CODECFS_ASSIGN(const bool is_array, store_.has_file(join_key(key, kArrayFile)));
    if (is_array) return EntryKind::variable;
    for (const char* file : kGroupFiles) {
      CODECFS_ASSIGN(const bool is_group, store_.has_file(join_key(key, file)));
      if (is_group) return EntryKind::group;
    }
    return std::nullopt;
  }

  /// Calls visit(name, kind) for every group and array in a group, until it returns false.
  template <class Visit>
  Result<> for_each_object(const std::string& group, Visit visit) const {
    bool goes_on = true;
    return store_.for_each(group, [&](const char* name, DirectoryStore::EntryType type) -> Result<> {
      if (!goes_on || type == DirectoryStore::EntryType::other) return {};
      const std::string key = join_key(group, name);
      const auto kind = kind_of(key);
      if (!kind) {  // a link to itself, a directory that may not be entered: not ours, and no reason to hide the rest
        log::warning("{}: left out of the listing: {}", key, kind.error().reason);
        return {};
      }
      if (!*kind) return {};
      if (type == DirectoryStore::EntryType::unknown) {
        CODECFS_ASSIGN(const bool is_loop, leads_back(group, key));
        if (is_loop) {
          log::warning("{}: left out of the listing: it is a link to a directory that holds it", key);
          return {};
        }
      }
      goes_on = visit(std::string_view(name), **kind);
      return {};
    });
  }

  /// Whether the directory of a key in `group` is the group itself or one above it, so that a walk would never end.
  Result<bool> leads_back(const std::string& group, const std::string& key) const {
    CODECFS_ASSIGN(const auto status, store_.stat(key));
    for (std::string above = group; status;
         above.resize(above.rfind('/') == std::string::npos ? 0 : above.rfind('/'))) {
      CODECFS_ASSIGN(const auto holder, store_.stat(above));
      if (holder && holder->st_dev == status->st_dev && holder->st_ino == status->st_ino) return true;
      if (above.empty()) break;
    }
    return false;
  }

  Entry entry_of(const std::string& group, std::string_view name, EntryKind kind) {
    return {
        .name = escape_name(name), .kind = kind, .object = objects_.id_of(join_key(group, name), kind), .target = {}};
  }

  Result<std::optional<std::string>> read_text(const std::string& key) const {
    CODECFS_ASSIGN(const auto buffer, store_.read(key, kMaxMetadataBytes));
    if (!buffer) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(buffer->data()), buffer->size());
  }

  Result<ArrayPtr> open_array(ObjectId id) {
    if (ArrayPtr array = arrays_.get(id)) return array;
    CODECFS_ASSIGN(const Object object, objects_.get(id));
    if (object.kind != EntryKind::variable) return fail(ENOENT, "{}: is no array", object.key);
    return load(object.key, id);
  }

  Result<ArrayPtr> load(const std::string& key, ObjectId id) {
    zarr::ArrayTexts texts;
    CODECFS_ASSIGN(auto zarray, read_text(join_key(key, kArrayFile)));
    if (!zarray) return fail(ENOENT, "{}: has no .zarray any more", key);
    texts.zarray = std::move(*zarray);
    CODECFS_ASSIGN(texts.zattrs, read_text(join_key(key, ".zattrs")));
    CODECFS_ASSIGN(texts.nczvar, read_text(join_key(key, ".nczvar")));
    if (!texts.nczvar) {
      CODECFS_ASSIGN(texts.nczvar, read_text(join_key(key, ".nczarray")));
    }

    auto array = std::make_shared<OpenArray>();
    array->key = key;
    auto parsed = zarr::parse_array(texts);
    if (!parsed) return key.empty() ? pass_on(parsed) : in_file(key, parsed.error());
    array->array = std::move(*parsed);
    Variable& facts = array->array.variable;
    if (array->array.may_be_narrow_text && facts.grid.count() > 0) {
      CODECFS_ASSIGN(const bool is_narrow, has_narrow_text(key, array->array));
      if (is_narrow) {
        zarr::narrow_text(array->array);
        array->unwritable =
            Error{EOPNOTSUPP, fmt::format("{}: its characters are stored in one byte where .zarray says four, as early "
                                          "netCDF-C wrote them: this is only read",
                                          called(key))};
      }
    }
    if (!facts.unreadable) {
      auto pipeline = filters::Pipeline::make(facts.filters, filters::shape_of_chunk(facts));
      if (pipeline) {
        array->pipeline = std::move(*pipeline);
      } else {
        facts.unreadable = std::move(pipeline.error());
      }
    }
    if (facts.unreadable && !key.empty())
      facts.unreadable->reason = fmt::format("{}: {}", key, facts.unreadable->reason);
    // Filters make a chunk a little larger, or its elements up to 16 times (int8 as complex128); objects may be of any
    // length.
    array->max_stored = facts.chunk_bytes
                            ? std::min(*facts.chunk_bytes, zarr::kMaxChunkBytes / 8) * 16 + (uint64_t{64} << 10)
                            : zarr::kMaxChunkBytes + (uint64_t{64} << 10);
    CODECFS_TRY(look_at_writing(*array));
    arrays_.put(id, array);
    return array;
  }

  /// Whether the chunks of an array that says "<U1" hold one byte an element. The first that is stored tells.
  Result<bool> has_narrow_text(const std::string& key, const zarr::Array& array) const {
    const ChunkGrid& grid = array.variable.grid;
    CODECFS_ASSIGN(auto status, store_.stat(join_key(key, grid.name_of(0, array.separator))));
    if (!status) {
      CODECFS_ASSIGN(const auto stored, zarr::list_chunks(store_, key, grid, array.separator));
      if (stored.empty()) return false;
      CODECFS_ASSIGN(status, store_.stat(join_key(key, grid.name_of(stored.front(), array.separator))));
    }
    return status && static_cast<uint64_t>(status->st_size) == grid.elements_per_chunk();
  }

  /// Finds out how chunks of an array are written, and why they cannot be if so.
  Result<> look_at_writing(OpenArray& array) const {
    CODECFS_ASSIGN(const auto zarray, store_.stat(join_key(array.key, kArrayFile)));
    array.mode = zarray ? zarray->st_mode & 0666 : 0666;
    const Variable& facts = array.array.variable;
    if (facts.unreadable) array.unwritable = facts.unreadable;
    if (unwritable_ || array.unwritable) return {};
    for (const FilterStage& stage : facts.filters) {
      const filters::FilterPtr filter = filters::find_for(stage);
      if (filter && filter->encodes) continue;
      array.unwritable =
          Error{EOPNOTSUPP, fmt::format("{}: {} can only be read here", called(array.key), print_json(stage.codec))};
      return {};
    }
    if (const auto changeable = store_.may_change(array.key); !changeable) array.unwritable = changeable.error();
    return {};
  }

  Result<ArrayPtr> writable_array(ObjectId variable) {
    CODECFS_TRY(writable());
    CODECFS_ASSIGN(auto array, open_array(variable));
    if (array->unwritable) return std::unexpected(*array->unwritable);
    // Two names for one chunk would be two chunks that change apart from each other.
    if (store_.passes_link(array->key))
      return fail(EOPNOTSUPP, "{}: is reached through a symbolic link; write it under its own name",
                  called(array->key));
    return array;
  }

  Result<std::string> name_to_change(const OpenArray& array, uint64_t number) const {
    const ChunkGrid& grid = array.array.variable.grid;
    if (number >= grid.count()) return fail(EINVAL, "{}: has no chunk of number {}", called(array.key), number);
    return grid.name_of(number, array.array.separator);
  }

  Result<std::string> chunk_key(const OpenArray& array, uint64_t number) const {
    const ChunkGrid& grid = array.array.variable.grid;
    if (number >= grid.count()) return fail(ENOENT, "{}: has no chunk of number {}", array.key, number);
    return join_key(array.key, grid.name_of(number, array.array.separator));
  }

  DirectoryStore store_;
  zarr::DirectoryWriter writer_;     // after store_, which it uses
  std::optional<Error> unwritable_;  // why nothing can be written; set when opened
  Entry root_;
  ObjectTable objects_;
  LruMap<ObjectId, OpenArray> arrays_{kKeptArrays};
  zarr::ChunkListings listings_;
};

}  // namespace

Result<std::unique_ptr<Source>> open_zarr(const std::string& path, bool may_write, FileIo& io) {
  return ZarrSource::open(path, may_write, io);
}

Result<> create_zarr(const std::string& path) { return fail(EOPNOTSUPP, "{}", path); }

bool looks_like_zarr(int directory_fd) {
  for (const char* file : {".zgroup", ".zarray", ".nczgroup", ".nczarr"})
    if (::faccessat(directory_fd, file, F_OK, 0) == 0) return true;
  return false;
}

}  // namespace codecfs
