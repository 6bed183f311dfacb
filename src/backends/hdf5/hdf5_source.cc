// Implements Source for HDF5: delegates to the parts of the backend, and turns their exceptions into errors.
//
// Lock order: PipelineChanges (one set_filters() at a time), OpenDatasets, the locks of a LibraryRead, the LibraryLock.
// Chunks are read without any of them.

#include "backends/hdf5/hdf5_source.h"

#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "backends/api/newer_format.h"
#include "backends/api/processes.h"
#include "backends/hdf5/format/superblock.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/library/library_read.h"
#include "backends/hdf5/metadata/attribute_values.h"
#include "backends/hdf5/overview/newer_forms.h"
#include "backends/hdf5/recode/pipeline_changes.h"
#include "backends/hdf5/source/isolated_source.h"
#include "backends/hdf5/source/mounted_file.h"
#include "backends/hdf5/source/open_datasets.h"
#include "backends/hdf5/source/overview_reader.h"
#include "backends/hdf5/source/tree_changes.h"
#include "backends/hdf5/source/virtual_sources.h"
#include "base/worker_process.h"

namespace codecfs {
namespace hdf5 {
namespace {

// Catches exceptions (memory, JSON) at the boundary of the backend.
template <class Function>
auto guarded(Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, "not enough memory");
  } catch (const std::exception& error) {
    return fail(EIO, "{}", error.what());
  }
}

class Hdf5Source final : public IsolatedSource {
 public:
  Result<> open(const std::string& path, bool may_write, FileIo& io, bool latest) {
    record_accesses({});
    mounted_.file.latest = latest;
    return mounted_.open(path, may_write, io);
  }

  Result<> open_isolated(const std::string& path, bool may_write, IsolatedState state, FileIo& io) {
    mounted_.file.shared = std::move(state.shared);
    record_accesses(std::move(state.damaged));
    mounted_.file.fetched = std::move(state.fetched);
    mounted_.file.latest = state.latest;
    return mounted_.resume(path, may_write, std::move(state.journal), io);
  }

  [[nodiscard]] const struct stat& status() const override { return mounted_.file.status; }
  [[nodiscard]] struct statvfs filesystem() const override {
    struct statvfs numbers{};
    if (fstatvfs(mounted_.file.fd.get(), &numbers) != 0) numbers = {};
    return numbers;
  }
  [[nodiscard]] std::string format() const override { return mounted_.is_netcdf ? "netCDF-4" : "HDF5"; }
  [[nodiscard]] bool shares_metadata() const override { return true; }
  [[nodiscard]] Entry root() const override { return {"", EntryKind::group, ObjectTree::kRoot, ""}; }

  // --- reading the tree

  Result<std::vector<Entry>> list(ObjectId group) override {
    return guarded([&] {
      const LibraryLock lock;
      return with_journal(mounted_.tree->list(group));
    });
  }
  Result<std::vector<UnreadableMember>> unreadable_members(ObjectId group) override {
    return guarded([&] {
      const LibraryLock lock;
      return with_journal(mounted_.tree->unreadable_members(group));
    });
  }
  Result<Members> overview(ObjectId group) override {
    return guarded([&] {
      const LibraryLock lock;
      ObjectTree::OutlineOf outline_of;
      if (OverviewReader* const reader = overview_reader())
        outline_of = [reader](uint64_t address) { return reader->outline(address); };
      return with_journal(mounted_.tree->overview(group, outline_of));
    });
  }
  Result<Entry> find(ObjectId group, std::string_view name) override {
    return guarded([&] {
      const LibraryLock lock;
      return with_journal(mounted_.tree->find(group, name));
    });
  }
  Result<std::vector<Attribute>> group_attributes(ObjectId group) override {
    return attributes_of_group(group, nullptr);
  }
  Result<std::vector<LeftOutAttribute>> left_out_attributes(ObjectId group) override {
    std::vector<LeftOutAttribute> left_out;
    CODECFS_TRY(attributes_of_group(group, &left_out));
    return left_out;
  }
  Result<std::vector<Attribute>> link_notes(ObjectId group) override {
    return guarded([&] {
      const LibraryLock lock;
      return with_journal(mounted_.tree->link_notes(group));
    });
  }
  Result<std::vector<GroupDimension>> dimensions(ObjectId group) override {
    return guarded([&]() -> Result<std::vector<GroupDimension>> {
      const LibraryLock lock;
      ObjectTree& tree = *mounted_.tree;
      CODECFS_ASSIGN(const Handle handle, tree.open_group(group));
      if (const Result<> readable = mounted_.file.recorder->attributes(tree.address(group)); !readable)
        return fail(readable.error().code, "{}: {}", tree.path(group), readable.error().reason);
      return mounted_.dimensions->in_group(handle.get());
    });
  }
  Result<VariablePtr> variable(ObjectId id) override {
    return with_dataset(id, [&](const Dataset& dataset) -> Result<VariablePtr> {
      auto variable = std::make_shared<Variable>(dataset.facts());
      const LibraryLock lock;
      auto attributes = attributes_of(dataset, &variable->left_out_attributes);
      if (attributes)
        variable->attributes = *std::move(attributes);
      else if (is_unreadable(attributes.error().code) && !dataset.outdated())
        variable->unreadable_attributes = std::move(attributes.error());
      else
        return pass_on(attributes);
      CODECFS_ASSIGN(auto names, mounted_.dimensions->names(id, dataset.named()));
      if (!names.phony.empty() && !variable->unreadable_attributes)
        variable->attributes.push_back(phony_attribute(names.phony));
      variable->dimensions = std::move(names.shown);
      return VariablePtr(std::move(variable));
    });
  }
  Result<std::vector<Attribute>> variable_attributes(ObjectId id) override {
    return with_dataset(id, [&](const Dataset& dataset) {
      const LibraryLock lock;
      return attributes_of(dataset);
    });
  }
  Result<VariablePtr> facts(ObjectId id) override {
    return with_dataset(id, [](const Dataset& dataset) -> Result<VariablePtr> {
      return std::make_shared<const Variable>(dataset.facts());
    });
  }

  std::optional<std::string> newer_form(uint64_t address) override { return find_newer(address); }
  std::optional<VariableSummary> quick_summary(ObjectId id) override {
    return guarded([&]() -> Result<std::optional<VariableSummary>> {
             const LibraryLock lock;
             OverviewReader* const reader = overview_reader();
             const std::optional<uint64_t> address = mounted_.tree->address_of_variable(id);
             if (reader == nullptr || !address) return std::nullopt;
             return reader->summary(*address, mounted_.tree->path(id));
           })
        .value_or(std::nullopt);
  }
  std::vector<VariableSummary> summaries(std::span<const ObjectId> variables) override {
    std::vector<VariableSummary> all;
    for (const ObjectId variable : variables) {
      std::optional<VariableSummary> quick = quick_summary(variable);
      all.push_back(quick ? *std::move(quick) : summarize(*this, variable));
    }
    return all;
  }

  Result<std::vector<std::string>> missing_sources(ObjectId id) override {
    return with_chunks(id, [&](const Dataset& dataset) -> Result<std::vector<std::string>> {
      if (dataset.facts().storage != Storage::virtual_sources) return std::vector<std::string>();
      const LibraryRead library;
      return missing_virtual_sources(mounted_.file, dataset.id());
    });
  }

  // --- chunks

  Result<ChunkInfo> locate(ObjectId id, uint64_t number) override {
    return with_chunks(id, [&](const Dataset& dataset) { return dataset.locate(number); });
  }
  Result<std::vector<uint64_t>> stored_chunks(ObjectId id, uint64_t from, size_t limit) override {
    return with_chunks(id, [&](Dataset& dataset) { return dataset.stored_chunks(from, limit); });
  }
  Result<DecodedChunk> fetch_chunk(ObjectId id, uint64_t number) override {
    return with_chunks(id, [&](const Dataset& dataset) { return dataset.fetch_chunk(number); });
  }
  Result<std::optional<Buffer>> read_stored(ObjectId id, uint64_t number) override {
    return with_chunks(id, [&](const Dataset& dataset) { return dataset.read_stored(number); });
  }
  Result<std::optional<uint64_t>> stored_bytes(ObjectId id, uint64_t number) override {
    return with_chunks(id, [&](const Dataset& dataset) { return dataset.stored_bytes(number); });
  }
  Result<> writable() override { return mounted_.writable(); }
  Result<> variable_writable(ObjectId id) override {
    return guarded([&]() -> Result<> {
      CODECFS_ASSIGN(const DatasetPtr dataset, datasets_.get(id));
      return dataset->writable();
    });
  }
  Result<> begin_writing_to(ObjectId) override {
    if (begun_.load(std::memory_order_relaxed)) return {};
    return guarded([&]() -> Result<> {
      const ChangeTurn turn(mounted_.file);
      const LibraryLock lock;
      CODECFS_TRY(mounted_.file.begin_writing());
      begun_ = true;
      return {};
    });
  }
  Result<> write_chunk(ObjectId id, uint64_t number, Bytes chunk) override {
    return with_chunks(id, [&](Dataset& dataset) { return dataset.write_chunk(number, chunk); });
  }
  Result<bool> write_stored(ObjectId id, uint64_t number, Bytes stored) override {
    return with_chunks(id, [&](Dataset& dataset) { return dataset.write_stored(number, stored); });
  }
  Result<> remove_chunk(ObjectId id, uint64_t number) override {
    return with_chunks(id, [&](Dataset& dataset) { return dataset.remove_chunk(number); });
  }

  Result<StoredPlaces> places(ObjectId id, uint64_t first, uint64_t count) override {
    return with_chunks(id, [&](const Dataset& dataset) { return dataset.places(first, count); });
  }
  Result<std::optional<FetchedChunk>> fetch_encoded(ObjectId id, uint64_t number) override {
    return with_chunks(id, [&](const Dataset& dataset) { return dataset.fetch_encoded(number); });
  }
  Result<Layout> layout(ObjectId id) override {
    return with_dataset(id, [](const Dataset& dataset) -> Result<Layout> {
      return Layout{dataset.layout(), dataset.name(), std::make_shared<const Variable>(dataset.facts()),
                    dataset.is_direct()};
    });
  }
  Result<bool> write_encoded(ObjectId id, uint64_t number, std::span<const FilterStage> chain, uint32_t filter_mask,
                             Bytes encoded) override {
    return with_chunks(id,
                       [&](Dataset& dataset) { return dataset.write_encoded(number, chain, filter_mask, encoded); });
  }
  Result<uint64_t> write_many(ObjectId id, const ManyChunks& chunks, Bytes bytes) override {
    const size_t count = chunks.numbers.size();
    const bool are_encoded = !chunks.filter_masks.empty();
    if (chunks.sizes.size() != count || (are_encoded && chunks.filter_masks.size() != count))
      return fail(EPROTO, "wrong numbers of chunks");
    for (uint64_t i = 0; i < count; ++i) {
      if (chunks.sizes[i] > bytes.size()) return fail(EPROTO, "fewer bytes than the chunks have");
      const Bytes chunk = bytes.first(chunks.sizes[i]);
      bytes = bytes.subspan(chunks.sizes[i]);
      bool is_stored = false;
      if (are_encoded)
        is_stored = write_encoded(id, chunks.numbers[i], chunks.chain, chunks.filter_masks[i], chunk).value_or(false);
      else
        is_stored = write_chunk(id, chunks.numbers[i], chunk).has_value();
      if (!is_stored) return i;
    }
    return count;
  }
  bool begin_edit(uint64_t edit) override { return changes_.begin_edit(edit); }
  Result<> seal() override {
    return guarded([&]() -> Result<> {
      const ChangeTurn turn(mounted_.file);
      const LibraryLock lock;
      return mounted_.file.seal_change();
    });
  }

  // --- changes of the tree and of metadata

  Result<> change_in_bulk() override {
    const LibraryLock lock;
    mounted_.file.is_bulk = true;
    return {};
  }
  Result<Entry> make_group(ObjectId group, std::string_view name) override {
    return guarded([&] { return changes_.make_group(group, name); });
  }
  Result<> define_dimensions(ObjectId group, std::span<const GroupDimension> dimensions) override {
    return guarded([&] { return changes_.define_dimensions(group, dimensions); });
  }
  Result<Entry> make_variable(ObjectId group, std::string_view name, const Variable& variable) override {
    return guarded([&] { return changes_.make_variable(group, name, variable); });
  }
  Result<Entry> make_link(ObjectId group, std::string_view name, std::string_view target) override {
    return guarded([&] { return changes_.make_link(group, name, target); });
  }
  Result<> restore_link(ObjectId group, std::string_view name, std::string_view note) override {
    return guarded([&] { return changes_.restore_link(group, name, note); });
  }
  Result<> remove(ObjectId group, std::string_view name) override {
    return guarded([&] { return changes_.remove(group, name); });
  }
  Result<> rename(ObjectId from, std::string_view name, ObjectId to, std::string_view new_name) override {
    return guarded([&] { return changes_.rename(from, name, to, new_name); });
  }
  Result<> set_attributes(ObjectId id, std::span<const Attribute> set, std::span<const std::string> remove) override {
    return guarded([&] { return changes_.set_attributes(id, set, remove); });
  }
  Result<> set_dimensions(ObjectId id, std::span<const std::string> names) override {
    return guarded([&] { return changes_.set_dimensions(id, names); });
  }
  Result<> set_metadata(ObjectId id, std::span<const std::string> dimensions, std::span<const Attribute> set,
                        std::span<const std::string> remove) override {
    return guarded([&] { return changes_.set_metadata(id, dimensions, set, remove); });
  }
  Result<> resize(ObjectId id, std::span<const uint64_t> shape) override {
    return guarded([&] { return changes_.resize(id, shape); });
  }
  Result<> set_filters(ObjectId id, std::span<const FilterStage> chain, Progress& progress) override {
    return guarded([&] { return pipelines_.set_filters(id, chain, progress); });
  }
  Result<> encode_masked_chunks(ObjectId id, Progress& progress) override {
    return guarded([&] { return pipelines_.encode_masked_chunks(id, progress); });
  }

  // --- commits and the log

  uint64_t reclaimable_bytes() override {
    const LibraryLock lock;
    return mounted_.file.free_space();
  }
  Result<> commit() override {
    return guarded([&]() -> Result<> {
      CODECFS_TRY(mounted_.file.commit());
      const LibraryLock lock;
      return mounted_.file.report_loss();
    });
  }
  // No caller waits for the result; the next commit reports what was lost.
  Result<bool> commit_at_interval() override {
    return guarded([&]() -> Result<bool> {
      CODECFS_TRY(mounted_.file.commit());
      return true;
    });
  }
  Result<> relocate_log() override {
    const ChangeTurn turn(mounted_.file);
    const LibraryLock lock;
    LoggedFile& bytes = *mounted_.file.bytes;
    return bytes.writing() ? bytes.relocate_log() : Result<>();
  }
  void release_idle(std::chrono::seconds) override { (void)relocate_log(); }  // the next commit reports an error
  [[nodiscard]] bool is_deleted() override { return begun_ && mounted_.file.bytes->is_gone(); }
  Result<> finish() override {
    return guarded([&]() -> Result<> {
      Result<> committed;
      if (const Result<bool> done = commit_at_interval(); !done) committed = std::unexpected(done.error());
      {
        const LockGuard guard(datasets_.mutex());
        datasets_.close_all_locked();
      }
      return mounted_.finish(committed);
    });
  }

 private:
  /// Null if the file is read by libhdf5 alone. Under the LibraryLock.
  OverviewReader* overview_reader() {
    if (!overview_) overview_ = OverviewReader::make(mounted_.file, mounted_.is_netcdf);
    return overview_->get();
  }
  Result<std::vector<Attribute>> attributes_of_group(ObjectId group, std::vector<LeftOutAttribute>* left_out) {
    return guarded([&]() -> Result<std::vector<Attribute>> {
      const LibraryLock lock;
      ObjectTree& tree = *mounted_.tree;
      CODECFS_ASSIGN(const Handle handle, tree.open(group));
      return attributes_of(handle.get(), tree.address(group), {mounted_.is_netcdf, false, true}, tree.path(group),
                           left_out);
    });
  }
  Result<std::vector<Attribute>> attributes_of(const Dataset& dataset,
                                               std::vector<LeftOutAttribute>* left_out = nullptr) const {
    if (dataset.id() < 0) return fail(ESTALE, "{}: its storage is another one now", dataset.name());
    return attributes_of(dataset.id(), dataset.address(), {mounted_.is_netcdf, is_dimension_scale(dataset.id())},
                         dataset.name(), left_out);
  }
  Result<std::vector<Attribute>> attributes_of(hid_t holder, uint64_t address, const AttributeRules& rules,
                                               const std::string& name,
                                               std::vector<LeftOutAttribute>* left_out = nullptr) const {
    if (const Result<> readable = mounted_.file.recorder->attributes(address); !readable)
      return fail(readable.error().code, "{}: {}", name, readable.error().reason);
    auto attributes = read_attributes(holder, rules, name, mounted_.file.bytes->size(), left_out);
    // Of attributes in a heap, libhdf5 does not report the failure.
    if (!attributes && attributes.error().code == EIO)
      if (const Result<> known = mounted_.file.recorder->check_version(attributes_of_object(address)); !known)
        return fail(known.error().code, "{}: {}", name, known.error().reason);
    return attributes;
  }
  void record_accesses(std::unordered_map<uint64_t, Error> damaged) {
    mounted_.file.recorder = std::make_unique<AccessRecorder>(
        std::move(damaged), [this](uint64_t address, bool has_failed) { return find_newer(address, has_failed); });
  }
  [[nodiscard]] std::optional<std::string> find_newer(uint64_t address, bool has_failed = true) const {
    return find_newer_form([this](uint64_t offset, MutableBytes to) { return mounted_.file.bytes->read(offset, to); },
                           address, has_failed);
  }
  template <class Use>
  auto with_dataset(ObjectId id, const Use& use) -> decltype(use(std::declval<Dataset&>())) {
    return guarded([&] { return datasets_.with(id, use); });
  }
  // From then on, a crash is no defect of the object's header, and time is taken by filters, too.
  template <class Use>
  auto with_chunks(ObjectId id, const Use& use) -> decltype(use(std::declval<Dataset&>())) {
    return with_dataset(id, [&](Dataset& dataset) {
      constexpr uint64_t kBytesPerSecond = uint64_t{20} << 20;  // of slow filters
      note_access(0);
      extend_step(static_cast<unsigned>(dataset.facts().chunk_bytes.value_or(0) / kBytesPerSecond));
      return use(dataset);
    });
  }
  template <class T>
  T with_journal(T result) {
    mounted_.tree->write_journal();
    return result;
  }
  MountedFile mounted_;
  std::optional<std::unique_ptr<OverviewReader>> overview_;  // made when it is first needed
  OpenDatasets datasets_{mounted_};
  TreeChanges changes_{mounted_, datasets_};
  PipelineChanges pipelines_{mounted_, datasets_};
  std::atomic<bool> begun_ = false;  // begin_writing_to() has succeeded
};

}  // namespace
}  // namespace hdf5

void prepare_sources() {
  start_supervisors([] { (void)H5open(); });  // takes a part of the time in which a file is opened
}

Result<std::unique_ptr<hdf5::IsolatedSource>> hdf5::open_isolated(const std::string& path, bool may_write,
                                                                  IsolatedState state, FileIo& io) {
  return guarded([&]() -> Result<std::unique_ptr<IsolatedSource>> {
    auto source = std::make_unique<Hdf5Source>();
    CODECFS_TRY(source->open_isolated(path, may_write, std::move(state), io));
    return source;
  });
}

bool looks_like_hdf5(int fd, uint64_t within) { return hdf5::find_signature(fd, within).has_value(); }

Result<std::unique_ptr<Source>> open_hdf5(const std::string& path, bool may_write, FileIo& io, bool latest) {
  return hdf5::guarded([&]() -> Result<std::unique_ptr<Source>> {
    auto source = std::make_unique<hdf5::Hdf5Source>();
    CODECFS_TRY(source->open(path, may_write, io, latest));
    return source;
  });
}

}  // namespace codecfs
