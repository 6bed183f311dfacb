// A Source over a Zarr store, of v2 or v3: a directory, or the files in a zip archive (store.h). It delegates to the
// parts that share the OpenStore and the StoreWriter.

#include "backends/zarr/source/zarr_source.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "backends/api/link_notes.h"
#include "backends/api/names.h"
#include "backends/zarr/metadata/metadata.h"
#include "backends/zarr/metadata/zarr3_metadata.h"
#include "backends/zarr/source/access.h"
#include "backends/zarr/source/chunk_file_reader.h"
#include "backends/zarr/source/chunk_file_writer.h"
#include "backends/zarr/source/member_changes.h"
#include "backends/zarr/source/metadata_changes.h"
#include "backends/zarr/source/nczarr_scope.h"
#include "backends/zarr/source/open_store.h"
#include "backends/zarr/source/pipeline_change.h"
#include "backends/zarr/source/shard_files.h"
#include "backends/zarr/source/shard_writer.h"
#include "backends/zarr/source/store_commits.h"
#include "backends/zarr/source/store_editor.h"
#include "backends/zarr/source/symbolic_links.h"
#include "backends/zarr/source/unreadable_members.h"
#include "backends/zarr/store/directory_store.h"
#include "backends/zarr/store/directory_writer.h"
#include "backends/zarr/store/object_store.h"
#include "backends/zarr/store/object_writer.h"
#include "backends/zarr/store/outside_changes.h"
#include "backends/zarr/store/zip_store.h"
#include "backends/zarr/store/zip_writer.h"
#include "base/log.h"
#include "model/json.h"

namespace codecfs {
namespace {

using zarr::ArrayPtr;
using zarr::join_key;
using zarr::repeat_change;

class ZarrSource final : public Source {
 public:
  /// `place` follows the name of the format: "", " in a zip archive".
  ZarrSource(const char* place, std::unique_ptr<zarr::OpenStore> store, std::unique_ptr<zarr::StoreWriter> writer)
      : place_(place), own_store_(std::move(store)), own_writer_(std::move(writer)) {
    if (is_shared_) store_.set_shared();
  }

  [[nodiscard]] const struct stat& status() const override { return store_.files().status(); }
  /// The status at the first query.
  [[nodiscard]] Result<struct stat> status_of(ObjectId id) const override {
    struct stat status = store_.files().status();
    CODECFS_ASSIGN(const zarr::Access access, accesses_.get(id, [&]() -> Result<zarr::Access> {
      const auto lock = store_.using_keys();
      CODECFS_ASSIGN(const zarr::Object object, store_.object(id));
      return zarr::access_of(store_.hierarchy(), object);
    }));
    status.st_uid = access.user;
    status.st_gid = access.group;
    status.st_mode = (status.st_mode & S_IFMT) | access.mode;
    return status;
  }
  [[nodiscard]] struct statvfs filesystem() const override {
    const auto lock = store_.using_keys();
    return store_.files().filesystem();
  }
  [[nodiscard]] std::string format() const override { return fmt::format("Zarr v{}{}", is_v3() ? 3 : 2, place_); }
  [[nodiscard]] bool is_zarr3() const override { return is_v3(); }
  [[nodiscard]] size_t reads_at_once() const override { return store_.files().reads_at_once(); }
  bool chains_for_numcodecs_in(ObjectId) override { return true; }
  [[nodiscard]] Entry root() const override { return store_.root(); }

  // --- reading the tree

  Result<std::vector<Entry>> list(ObjectId group) override {
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(const zarr::Object object, store_.group(group));
    CODECFS_ASSIGN(const zarr::LinksShown::Notes links, links_.of(group, [&] { return notes_of(object); }));
    std::vector<Entry> entries = zarr::LinksShown::entries(links);
    const auto is_link = [&](std::string_view name) {
      return zarr::LinksShown::find(links, escape_name(name)) != nullptr;
    };
    CODECFS_TRY(store_.hierarchy().for_each(
        object.key,
        [&](std::string_view name, EntryKind kind) {
          entries.push_back(store_.entry_of(object.key, name, kind));
          return true;
        },
        is_link));
    std::ranges::sort(entries, {}, &Entry::name);
    return entries;
  }
  Result<std::vector<UnreadableMember>> unreadable_members(ObjectId group) override {
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(const zarr::Object object, store_.group(group));
    CODECFS_ASSIGN(const zarr::LinksShown::Notes links, links_.of(group, [&] { return notes_of(object); }));
    CODECFS_ASSIGN(std::vector<UnreadableMember> members, unreadable_.of(store_.hierarchy(), object.key));
    std::erase_if(members, [&](const auto& member) { return zarr::LinksShown::find(links, member.name) != nullptr; });
    return members;
  }
  Result<> expect_tree(ObjectId group) override {
    std::string key;
    {
      const auto lock = store_.using_keys();
      CODECFS_ASSIGN(const zarr::Object object, store_.group(group));
      key = object.key;
    }
    // Without the lock, as writers would wait for all of it, and all readers for these.
    store_.files().expect_tree(key);
    return {};
  }
  Result<Entry> find(ObjectId group, std::string_view name) override {
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(const zarr::Object object, store_.group(group));
    CODECFS_ASSIGN(const zarr::LinksShown::Notes links, links_.of(group, [&] { return notes_of(object); }));
    if (const Attribute* const link = zarr::LinksShown::find(links, name)) return zarr::LinksShown::entry_of(*link);
    return store_.find(object, name);
  }
  Result<std::vector<Attribute>> group_attributes(ObjectId group) override {
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(const zarr::Object object, store_.group(group));
    return attributes_of(object);
  }
  Result<std::vector<Attribute>> link_notes(ObjectId group) override {
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(const zarr::Object object, store_.group(group));
    return notes_of(object);
  }
  void show_links(bool shown) override { links_.show(shown); }
  Result<std::vector<GroupDimension>> dimensions(ObjectId group) override {
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(const zarr::Object object, store_.group(group));
    if (is_v3()) return std::vector<GroupDimension>();
    zarr::NczarrScope scope(store_.hierarchy());
    CODECFS_ASSIGN(const zarr::NczarrGroup* lists, scope.at(object.key));
    return lists != nullptr ? lists->dimensions : std::vector<GroupDimension>();
  }
  Result<std::optional<NczarrMembers>> nczarr_members(ObjectId group) override {
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(const zarr::Object object, store_.group(group));
    if (is_v3() || is_plain_) return std::optional<NczarrMembers>();
    zarr::NczarrScope scope(store_.hierarchy());
    CODECFS_ASSIGN(const zarr::NczarrGroup* root, scope.at(""));
    is_plain_ = root == nullptr;
    if (is_plain_) return std::optional<NczarrMembers>();
    CODECFS_ASSIGN(zarr::NczarrGroup * lists, scope.at(object.key));
    if (lists == nullptr) return std::optional<NczarrMembers>();
    return std::optional(NczarrMembers{std::move(lists->arrays), std::move(lists->groups)});
  }
  Result<VariablePtr> variable(ObjectId variable) override {
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(const ArrayPtr array, store_.current_array(variable));
    return VariablePtr(array, &array->array.variable);
  }
  Result<VariablePtr> facts(ObjectId variable) override {
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(const ArrayPtr array, store_.array(variable));
    return VariablePtr(array, &array->array.variable);
  }
  bool changed_outside(ObjectId id) override {
    const auto lock = store_.using_keys();
    const auto object = store_.object(id);
    if (!object || !outside_.any(store_.files(), object->key, object->kind)) return false;
    if (object->kind == EntryKind::variable) store_.forget(id, object->key);
    return true;
  }

  // --- chunks

  Result<ChunkInfo> locate(ObjectId variable, uint64_t number) override { return reader_.locate(variable, number); }
  Result<std::vector<uint64_t>> stored_chunks(ObjectId variable, uint64_t from, size_t limit) override {
    return reader_.stored_chunks(variable, from, limit);
  }
  Result<DecodedChunk> fetch_chunk(ObjectId variable, uint64_t number) override {
    return reader_.fetch_chunk(variable, number);
  }
  Result<std::optional<Buffer>> read_part(ObjectId variable, uint64_t number, uint64_t offset, uint64_t size) override {
    return reader_.read_part(variable, number, offset, size);
  }
  Result<> expect(ObjectId variable, std::span<const uint64_t> numbers) override {
    return reader_.expect(variable, numbers);
  }
  Result<> expect_places(ObjectId variable, std::span<const uint64_t> numbers) override {
    return reader_.expect_places(variable, numbers);
  }
  Result<std::optional<uint64_t>> stored_bytes(ObjectId variable, uint64_t number) override {
    return reader_.stored_bytes(variable, number);
  }
  Result<std::optional<uint64_t>> stored_offset(ObjectId variable, uint64_t number) override {
    return reader_.stored_offset(variable, number);
  }
  Result<std::optional<UniqueFd>> open_stored(ObjectId variable, uint64_t number) override {
    return reader_.open_stored(variable, number);
  }
  Result<std::optional<Buffer>> read_stored(ObjectId variable, uint64_t number) override {
    return reader_.read_stored(variable, number);
  }
  Result<std::vector<uint64_t>> stored_shards(ObjectId variable, uint64_t from, size_t limit) override {
    return files_.stored(variable, from, limit);
  }
  Result<std::shared_ptr<const ContentReader>> open_shard(ObjectId variable, uint64_t shard) override {
    return files_.open(variable, shard);
  }
  Result<> writable() override { return store_.writable(); }
  Result<> variable_writable(ObjectId variable) override {
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(const auto array, store_.writable_array(variable));
    return {};
  }
  Result<> begin_writing_to(ObjectId variable) override {
    const auto lock = store_.using_keys();
    CODECFS_TRY(editor_.begin());
    if (!is_shared()) return {};
    CODECFS_ASSIGN(const zarr::Object object, store_.object(variable));
    if (object.kind != EntryKind::variable) return {};
    CODECFS_ASSIGN(const ArrayPtr array, store_.array(variable));
    return array->array.shards ? writer_.shared()->begin_updates() : Result<>();  // a shard is changed in part
  }
  [[nodiscard]] bool is_shared() const override { return is_shared_; }
  Result<> begin_updates(ObjectId variable) override { return chunks_.begin_updates(variable); }
  Result<ChunkBase> fetch_base(ObjectId variable, uint64_t number) override {
    bool is_in_shard = false;
    {
      const auto lock = store_.using_keys();
      CODECFS_ASSIGN(const ArrayPtr array, store_.writable_array(variable));
      is_in_shard = array->array.shards.has_value();
    }
    if (!is_in_shard) return chunks_.fetch_base(variable, number);
    auto chunk = reader_.fetch_chunk(variable, number);
    if (!chunk && chunk.error().code == ENOENT) return ChunkBase{};
    if (!chunk) return pass_on(chunk);
    return ChunkBase{.chunk = std::move(chunk->bytes), .version = std::nullopt, .is_changed = chunk->is_changed};
  }
  Result<UpdatedChunk> update_chunk(ObjectId variable, uint64_t number, Bytes chunk, const ByteSet& written,
                                    const std::optional<std::string>& version) override {
    return chunks_.update_chunk(variable, number, chunk, written, version);
  }
  Result<> write_chunk(ObjectId variable, uint64_t number, Bytes chunk) override {
    return chunks_.write_chunk(variable, number, chunk);
  }
  Result<bool> write_stored(ObjectId variable, uint64_t number, Bytes stored) override {
    return chunks_.write_stored(variable, number, stored);
  }
  Result<> remove_chunk(ObjectId variable, uint64_t number) override { return chunks_.remove_chunk(variable, number); }

  Result<> check_shard(ObjectId variable, uint64_t shard, Bytes bytes) override {
    return files_.check(variable, shard, bytes);
  }
  Result<> write_shard(ObjectId variable, uint64_t shard, Bytes bytes) override {
    return files_.write(variable, shard, bytes);
  }
  Result<> remove_shard(ObjectId variable, uint64_t shard) override { return files_.remove(variable, shard); }

  // --- changes of the tree and of metadata

  Result<Entry> make_group(ObjectId parent, std::string_view name) override {
    return repeat_change([&] { return members_.make_group(parent, name); });
  }
  Result<> define_dimensions(ObjectId group, std::span<const GroupDimension> dimensions) override {
    return repeat_change([&] { return metadata_.define_dimensions(group, dimensions); });
  }
  Result<Entry> make_variable(ObjectId parent, std::string_view name, const Variable& variable) override {
    return repeat_change([&] { return members_.make_variable(parent, name, variable); });
  }
  Result<Entry> make_link(ObjectId, std::string_view, std::string_view) override {
    CODECFS_TRY(writable());
    return fail(EPERM, "Zarr has no links");
  }
  Result<> remove(ObjectId parent, std::string_view name) override {
    return repeat_change([&] { return members_.remove(parent, name); });
  }
  Result<> rename(ObjectId from, std::string_view name, ObjectId to, std::string_view to_name) override {
    return repeat_change([&] { return members_.rename(from, name, to, to_name); });
  }
  Result<> set_attributes(ObjectId id, std::span<const Attribute> set, std::span<const std::string> remove) override {
    return repeat_change([&] { return metadata_.set_attributes(id, set, remove); });
  }
  Result<> set_dimensions(ObjectId id, std::span<const std::string> names) override {
    return repeat_change([&] { return metadata_.set_dimensions(id, names); });
  }
  Result<> set_dimension_names(ObjectId id, const std::optional<OptionalNames>& names) override {
    return repeat_change([&] { return metadata_.set_dimension_names(id, names); });
  }
  Result<> resize(ObjectId id, std::span<const uint64_t> shape) override {
    return repeat_change([&] { return metadata_.resize(id, shape); });
  }
  Result<> set_filters(ObjectId id, std::span<const FilterStage> filters, Progress& progress) override {
    return zarr::change_pipeline(store_, editor_, writer_, shards_, id, filters, progress);
  }
  Result<> set_sharding(ObjectId id, const Variable& wanted, Progress& progress) override {
    return zarr::change_sharding(store_, editor_, writer_, shards_, id, wanted, progress);
  }

  // --- commits

  Result<> commit() override { return commits_.commit(writable().has_value()); }
  Result<bool> commit_at_interval() override { return commits_.commit_at_interval(); }
  void release_idle(std::chrono::seconds unused_for) override {
    store_.listings().drop_unused(unused_for);
    store_.shard_listings().drop_unused(unused_for);
  }
  [[nodiscard]] bool is_deleted() override { return writer_.is_deleted(); }
  Result<> finish() override {
    if (editor_.take_lists_changed()) {
      if (const auto settled = repeat_change([&] { return metadata_.extend_arrays(); }); !settled)
        log::warning("netCDF-C may not open this store: some arrays are shorter than their dimensions: {}",
                     settled.error().reason);
    }
    Result<> committed = commits_.commit(false);
    const Result<> ended = writer_.end();
    return ended ? committed : ended;
  }

 private:
  Result<std::vector<Attribute>> attributes_of(const zarr::Object& object) {
    if (is_v3()) {
      CODECFS_ASSIGN(const auto text, store_.hierarchy().read_text(join_key(object.key, zarr::kZarr3File)));
      if (!text) {
        CODECFS_ASSIGN(const auto kind, store_.hierarchy().kind_of(object.key));
        if (kind == EntryKind::group) return std::vector<Attribute>();  // an implicit group
        return fail(ENOENT, "{}: no longer has a zarr.json", zarr::group_called(object.key));
      }
      auto attributes = zarr::parse_zarr3_group(*text);
      if (!attributes) return zarr::in_file(zarr::group_called(object.key), attributes.error());
      return attributes;
    }
    CODECFS_ASSIGN(const auto text, store_.hierarchy().read_text(join_key(object.key, zarr::kAttributesFile)));
    if (!text) return std::vector<Attribute>();
    CODECFS_ASSIGN(const auto nczgroup, store_.hierarchy().read_text(join_key(object.key, ".nczgroup")));
    std::optional<std::string> nczattr;
    if (nczgroup) {
      CODECFS_ASSIGN(nczattr, store_.hierarchy().read_text(join_key(object.key, ".nczattr")));
    }
    auto attributes = zarr::parse_attributes(*text, nczattr);
    if (!attributes) return zarr::in_file(object.key, attributes.error());
    return attributes;
  }
  Result<std::vector<Attribute>> notes_of(const zarr::Object& object) {
    // Attributes that cannot be read are an error where they are copied.
    const std::vector<Attribute> attributes = attributes_of(object).value_or(std::vector<Attribute>());
    const auto noted = std::ranges::find(attributes, kStoredLinks, &Attribute::name);
    return zarr::link_notes(store_.hierarchy(), object.key,
                            noted == attributes.end() ? Json::object() : parse_stored_links(noted->value));
  }
  [[nodiscard]] bool is_v3() const { return store_.hierarchy().format() == zarr::ZarrFormat::v3; }

  const char* place_;
  std::unique_ptr<zarr::OpenStore> own_store_;
  zarr::OpenStore& store_ = *own_store_;
  std::unique_ptr<zarr::StoreWriter> own_writer_;  // after the store, whose files it changes
  zarr::StoreWriter& writer_ = *own_writer_;
  const bool is_shared_ = writer_.shared() != nullptr;
  zarr::StoreEditor editor_{store_, writer_};
  zarr::ShardWriter shards_{store_, writer_};
  zarr::ShardFiles files_{store_, writer_, shards_};
  zarr::ChunkFileReader reader_{store_, shards_};
  zarr::MetadataChanges metadata_{store_, editor_, writer_, shards_};
  zarr::MemberChanges members_{store_, editor_, writer_, shards_};
  zarr::ChunkFileWriter chunks_{store_, metadata_, writer_, shards_};
  zarr::StoreCommits commits_{store_, writer_, shards_};
  zarr::OutsideChanges outside_;
  mutable zarr::AccessCache accesses_;
  zarr::UnreadableMembers unreadable_;
  zarr::LinksShown links_;
  std::atomic<bool> is_plain_ = false;  // netCDF-C has no lists for the root
};

bool looks_like_zarr2(int directory_fd) {
  for (const char* file : {".zgroup", ".zarray", ".nczgroup", ".nczarr"})
    if (::faccessat(directory_fd, file, F_OK, 0) == 0) return true;
  return false;
}

}  // namespace

Result<std::unique_ptr<Source>> open_zarr(const std::string& path, bool may_write, FileIo& io) {
  CODECFS_ASSIGN(auto opened, zarr::DirectoryStore::open(path));
  auto files = std::make_unique<zarr::DirectoryStore>(std::move(opened));
  zarr::DirectoryStore& directory = *files;
  CODECFS_ASSIGN(auto store, zarr::OpenStore::open(path, may_write, std::move(files)));
  auto writer = std::make_unique<zarr::DirectoryWriter>(directory, path, io);
  return std::make_unique<ZarrSource>("", std::move(store), std::move(writer));
}

Result<std::unique_ptr<Source>> open_zarr_zip(const std::string& path, bool may_write, FileIo& io) {
  CODECFS_ASSIGN(auto files, zarr::ZipStore::open(path));
  zarr::ZipStore& archive = *files;
  CODECFS_ASSIGN(auto store, zarr::OpenStore::open(path, may_write, std::move(files)));
  auto writer = std::make_unique<zarr::ZipWriter>(archive, path, io);
  return std::make_unique<ZarrSource>(" in a zip archive", std::move(store), std::move(writer));
}

Result<std::unique_ptr<Source>> open_zarr_zip(std::shared_ptr<remote::ObjectFile> object) {
  const std::string name = object->name();
  CODECFS_ASSIGN(auto files, zarr::ZipStore::open(std::move(object)));
  CODECFS_ASSIGN(auto store, zarr::OpenStore::open(name, true, std::move(files)));
  return std::make_unique<ZarrSource>(" in a zip archive in an object store", std::move(store),
                                      std::make_unique<zarr::StoreWriter>());
}

Result<std::unique_ptr<Source>> open_zarr_objects(std::shared_ptr<remote::ObjectClient> client, const std::string& key,
                                                  const std::string& name, std::optional<Error> unwritable) {
  const bool may_write = !unwritable;
  auto files = zarr::ObjectStore::open(std::move(client), key, std::move(unwritable));
  // Those of a request name the URL, those of its content only the file.
  if (!files && !files.error().reason.contains("://"))
    return fail(files.error().code, "{}/{}", name, files.error().reason);
  if (!files) return pass_on(files);
  zarr::ObjectStore& objects = **files;
  CODECFS_ASSIGN(auto store, zarr::OpenStore::open(name, true, *std::move(files)));
  std::unique_ptr<zarr::StoreWriter> writer;
  if (may_write)
    writer = std::make_unique<zarr::ObjectWriter>(objects);
  else
    writer = std::make_unique<zarr::StoreWriter>();
  return std::make_unique<ZarrSource>(" in an object store", std::move(store), std::move(writer));
}

std::optional<EntryKind> zarr_root_kind(int directory_fd) {
  const auto has = [&](const char* file) { return ::faccessat(directory_fd, file, F_OK, 0) == 0; };
  if (has(zarr::kArrayFile)) return EntryKind::variable;
  if (looks_like_zarr2(directory_fd)) return EntryKind::group;
  if (!has(zarr::kZarr3File)) return std::nullopt;
  const auto directory = zarr::DirectoryStore::open({.fd = UniqueFd(::dup(directory_fd)), .path = "."});
  if (!directory) return std::nullopt;
  const auto text = zarr::read_metadata(*directory, zarr::kZarr3File);
  if (!text || !*text) return std::nullopt;
  const auto kind = zarr::zarr3_node_type(**text);
  return kind ? std::optional(*kind) : std::nullopt;
}

bool looks_like_zarr(int directory_fd) {
  return looks_like_zarr2(directory_fd) || ::faccessat(directory_fd, zarr::kZarr3File, F_OK, 0) == 0;
}

}  // namespace codecfs
