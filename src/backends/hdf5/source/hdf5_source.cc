// Implements Source for HDF5: caches open datasets and delegates to the parts of the backend.
//
// Lock order: recoding_mutex_ (one set_filters() at a time), opened_mutex_, the locks of a LibraryRead, the
// LibraryLock. Chunks are read without any of them.

#include "backends/hdf5/source/hdf5_source.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <algorithm>

#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "backends/hdf5/format/superblock.h"
#include "backends/hdf5/library/file_driver.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_read.h"
#include "backends/hdf5/metadata/attribute_values.h"
#include "backends/hdf5/metadata/dimensions.h"
#include "backends/hdf5/metadata/object_tree.h"
#include "backends/hdf5/metadata/tree_write.h"
#include "backends/hdf5/recode/recode.h"
#include "backends/hdf5/source/dataset.h"
#include "backends/hdf5/wal/survivor.h"
#include "backends/isolation/scout.h"
#include "base/log.h"
#include "model/memory_estimate.h"

namespace codecfs {
namespace hdf5 {
namespace {

constexpr size_t kOpenDatasets = 128;

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

class Hdf5Source final : public Source {
 public:
  static Result<std::unique_ptr<Source>> open(const std::string& path, bool may_write, FileIo& io) {
    std::unique_ptr<Hdf5Source> source(new Hdf5Source);
    CODECFS_TRY(source->open_file(path, may_write, io));
    return std::unique_ptr<Source>(std::move(source));
  }

  ~Hdf5Source() override {
    const LibraryLock lock;
    recent_.clear();
    if (file_.bytes) (void)file_.close_and_hold();
  }

  Result<> writable() override {
    if (file_.not_writable) return std::unexpected(*file_.not_writable);
    return {};
  }

  Result<> variable_writable(ObjectId id) override {
    return guarded([&]() -> Result<> {
      CODECFS_ASSIGN(const std::shared_ptr<Dataset> dataset, opened(id));
      return dataset->writable();
    });
  }

  Result<> begin_writing() override {
    if (begun_.load(std::memory_order_relaxed)) return {};
    return guarded([&]() -> Result<> {
      const LibraryLock lock;
      CODECFS_TRY(file_.begin_writing());
      begun_ = true;
      return {};
    });
  }

  Result<> write_chunk(ObjectId id, uint64_t number, Bytes chunk) override {
    return guarded([&]() -> Result<> {
      return with_dataset(id, [&](Dataset& dataset) { return dataset.write_chunk(number, chunk); });
    });
  }

  Result<bool> write_stored(ObjectId id, uint64_t number, Bytes stored) override {
    return guarded([&]() -> Result<bool> {
      return with_dataset(id, [&](Dataset& dataset) { return dataset.write_stored(number, stored); });
    });
  }

  Result<> remove_chunk(ObjectId id, uint64_t number) override {
    return guarded(
        [&]() -> Result<> { return with_dataset(id, [&](Dataset& dataset) { return dataset.remove_chunk(number); }); });
  }

  Result<> set_filters(ObjectId id, std::span<const FilterStage> chain, Progress& progress) override {
    return guarded([&]() -> Result<> {
      const std::lock_guard one(recoding_mutex_);
      bool leaves_hole = false;
      {
        CODECFS_ASSIGN(const std::shared_ptr<Dataset> dataset, current(id));
        Recoding recoding(file_, *dataset);
        CODECFS_TRY(check_all());
        CODECFS_ASSIGN(const bool needed, recoding.prepare(chain));
        if (!needed) return {};
        CODECFS_TRY(recoding.copy(progress));
        CODECFS_TRY(exchange(id, recoding, leaves_hole));
      }
      if (leaves_hole) pack(id, progress);
      return {};
    });
  }

  uint64_t reclaimable_bytes() override {
    const LibraryLock lock;
    return file_.free_space();
  }

  Result<> commit() override {
    return guarded([&]() -> Result<> {
      const LibraryLock lock;
      CODECFS_TRY(file_.commit());
      return file_.report_loss();
    });
  }

  // No caller waits for the result; the next commit reports what was lost.
  Result<bool> commit_at_interval() override {
    return guarded([&]() -> Result<bool> {
      const LibraryLock lock;
      CODECFS_TRY(file_.commit());
      return true;
    });
  }

  Result<> relocate_log() override {
    const LibraryLock lock;
    return file_.bytes->writing() ? file_.bytes->relocate_log() : Result<>();
  }

  void release_idle(std::chrono::seconds) override { (void)relocate_log(); }  // the next commit reports an error

  // At close libhdf5 writes more metadata, which is part of the state that other programs must find.
  Result<> finish() override {
    return guarded([&]() -> Result<> {
      const Result<bool> committed = commit_at_interval();
      {
        const std::lock_guard guard(opened_mutex_);
        close_datasets();
      }
      const LibraryLock lock;
      file_.reopened = [] {};
      dimensions_.reset();
      tree_.reset();
      bool is_to_be_stored = committed && !file_.bytes->is_gone();
      LeftSpace left;
      if (is_to_be_stored && file_.bytes->writing()) {
        Result<LeftSpace> kept = file_.leave_space();
        is_to_be_stored = kept.has_value();  // else the last commit stays
        if (kept) left = *std::move(kept);
      }
      const Result<> closed = is_to_be_stored ? file_.close_in_library() : file_.close_and_hold();
      if (file_.bytes->writing() && is_to_be_stored && closed && !file_.failure)
        CODECFS_TRY(file_.bytes->commit());
      else
        left = {};
      const Result<> finished = file_.bytes->finish(left);
      file_.written.reset();
      if (committed && !closed)
        return fail(closed.error().code, "{}; it is as of the last commit", closed.error().reason);
      CODECFS_TRY(committed);
      CODECFS_TRY(finished);
      return file_.report_loss();
    });
  }

  [[nodiscard]] const struct stat& status() const override { return file_.status; }
  [[nodiscard]] struct statvfs filesystem() const override {
    struct statvfs numbers{};
    if (fstatvfs(file_.fd.get(), &numbers) != 0) numbers = {};
    return numbers;
  }
  [[nodiscard]] std::string format() const override { return netcdf_ ? "netCDF-4" : "HDF5"; }
  [[nodiscard]] bool shares_metadata() const override { return true; }
  [[nodiscard]] Entry root() const override { return {"", EntryKind::group, ObjectTree::kRoot, ""}; }

  Result<std::vector<Entry>> list(ObjectId group) override {
    return guarded([&]() -> Result<std::vector<Entry>> {
      const LibraryLock lock;
      return tree_->list(group);
    });
  }

  Result<Entry> find(ObjectId group, std::string_view name) override {
    return guarded([&]() -> Result<Entry> {
      const LibraryLock lock;
      return tree_->find(group, name);
    });
  }

  Result<std::vector<Attribute>> group_attributes(ObjectId group) override {
    return guarded([&]() -> Result<std::vector<Attribute>> {
      const LibraryLock lock;
      CODECFS_ASSIGN(const Handle handle, tree_->open(group));
      if (has_many_attributes(handle.get())) CODECFS_TRY(file_.watch->attributes(tree_->address(group)));
      return read_attributes(handle.get(), {netcdf_, false}, tree_->path(group));
    });
  }

  Result<VariablePtr> variable(ObjectId id) override {
    return guarded([&]() -> Result<VariablePtr> {
      return with_dataset(id, [&](const Dataset& dataset) -> Result<VariablePtr> {
        auto variable = std::make_shared<Variable>(dataset.facts());
        const LibraryLock lock;
        if (has_many_attributes(dataset.id())) CODECFS_TRY(file_.watch->attributes(dataset.address()));
        const AttributeRules rules{netcdf_, is_dimension_scale(dataset.id())};
        CODECFS_ASSIGN(variable->attributes, read_attributes(dataset.id(), rules, dataset.name()));
        CODECFS_ASSIGN(variable->dimensions, dimensions_->names(id, dataset));
        return VariablePtr(std::move(variable));
      });
    });
  }

  Result<VariablePtr> facts(ObjectId id) override {
    return guarded([&]() -> Result<VariablePtr> {
      return with_dataset(id, [&](const Dataset& dataset) -> Result<VariablePtr> {
        return std::make_shared<const Variable>(dataset.facts());
      });
    });
  }

  Result<ChunkInfo> locate(ObjectId id, uint64_t number) override {
    return guarded([&]() -> Result<ChunkInfo> {
      return with_dataset(id, [&](Dataset& dataset) { return dataset.locate(number); });
    });
  }

  Result<std::vector<uint64_t>> stored_chunks(ObjectId id, uint64_t from, size_t limit) override {
    return guarded([&]() -> Result<std::vector<uint64_t>> {
      return with_dataset(id, [&](Dataset& dataset) { return dataset.stored_chunks(from, limit); });
    });
  }

  Result<std::optional<Buffer>> read_stored(ObjectId id, uint64_t number) override {
    return guarded([&]() -> Result<std::optional<Buffer>> {
      return with_dataset(id, [&](Dataset& dataset) { return dataset.read_stored(number); });
    });
  }

  Result<std::optional<uint64_t>> stored_bytes(ObjectId id, uint64_t number) override {
    return guarded([&]() -> Result<std::optional<uint64_t>> {
      return with_dataset(id, [&](Dataset& dataset) { return dataset.stored_bytes(number); });
    });
  }

  Result<Buffer> read_chunk(ObjectId id, uint64_t number) override {
    return guarded([&]() -> Result<Buffer> {
      return with_dataset(id, [&](Dataset& dataset) { return dataset.read_chunk(number); });
    });
  }

  Result<Entry> make_group(ObjectId group, std::string_view name) override {
    return change<LibraryLock>([&](TreeWriter& writer) { return writer.make_group(group, name); });
  }

  Result<Entry> make_variable(ObjectId group, std::string_view name, const Variable& variable) override {
    return change<LibraryRead>([&](TreeWriter& writer) { return writer.make_variable(group, name, variable); });
  }

  Result<Entry> make_link(ObjectId group, std::string_view name, std::string_view target) override {
    return change<LibraryLock>([&](TreeWriter& writer) { return writer.make_link(group, name, target); });
  }

  Result<> remove(ObjectId group, std::string_view name) override {
    return change<LibraryLock>([&](TreeWriter& writer) { return writer.remove(group, name); });
  }

  Result<> rename(ObjectId from, std::string_view name, ObjectId to, std::string_view new_name) override {
    // The dimensions of the new group may be shorter than the shown shape.
    if (from != to) CODECFS_TRY(store_shape_of_member(from, name));
    return change<LibraryLock>([&](TreeWriter& writer) -> Result<> {
      CODECFS_ASSIGN(const Entry entry, tree_->find(from, name));
      if (entry.kind != EntryKind::variable) return writer.rename(from, name, to, new_name, nullptr);
      CODECFS_ASSIGN(const std::shared_ptr<Dataset> dataset, opened_now(entry.object));
      return writer.rename(from, name, to, new_name, dataset.get());
    });
  }

  Result<> set_attributes(ObjectId id, std::span<const Attribute> set, std::span<const std::string> remove) override {
    return change<LibraryLock>([&](TreeWriter& writer) -> Result<> {
      auto dataset = opened_now(id);
      if (!dataset && dataset.error().code != EISDIR) return pass_on(dataset);
      return writer.set_attributes(id, dataset ? dataset->get() : nullptr, set, remove);
    });
  }

  Result<> set_dimensions(ObjectId id, std::span<const std::string> names) override {
    // The new dimensions may be shorter than the shown shape.
    CODECFS_ASSIGN(const std::vector<std::string> before, dimension_names(id));
    if (!std::ranges::equal(before, names)) CODECFS_TRY(store_shape(id));
    return change<LibraryLock>([&](TreeWriter& writer) -> Result<> {
      CODECFS_ASSIGN(const std::shared_ptr<Dataset> dataset, opened_now(id));
      return writer.set_dimensions(id, *dataset, names);
    });
  }

  Result<> resize(ObjectId id, std::span<const uint64_t> shape) override {
    // The shown shape may be larger than the stored one, even if it is the requested one.
    CODECFS_TRY(store_shape(id));
    return change<LibraryRead>([&](TreeWriter& writer) -> Result<> {
      CODECFS_ASSIGN(const std::shared_ptr<Dataset> dataset, opened_now(id));
      return writer.resize(*dataset, shape);
    });
  }

 private:
  struct Opened {
    ObjectId id;
    std::shared_ptr<Dataset> dataset;
  };

  Hdf5Source() = default;

  Result<> open_file(const std::string& path, bool may_write, FileIo& io) {
    char* resolved = realpath(path.c_str(), nullptr);
    if (resolved == nullptr) return fail_errno(errno, "{}", path);
    file_.path = resolved;
    free(resolved);  // NOLINT: realpath allocates with malloc
    file_.directory = file_.path.substr(0, file_.path.rfind('/'));
    std::error_code error;
    file_.working_directory = std::filesystem::current_path(error).string();

    file_.fd = UniqueFd(::open(file_.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file_.fd || fstat(file_.fd.get(), &file_.status) != 0) return fail_errno(errno, "{}", path);
    await_survivor(file_.path);
    CODECFS_ASSIGN(file_.bytes, LoggedFile::open(file_.path, io));
    if (file_.bytes->locked_by_another())
      log::warning("{} is locked by a program that writes it: what is shown may change or be damaged", path);
    if (file_.bytes->missing_log())
      log::warning("{}; until then it is shown without these changes", file_.bytes->missing_log()->reason);
    file_.not_writable = why_not_writable(may_write);
    file_.left = KeptSpace(file_.bytes->left_space());

    const LibraryLock lock;
    CODECFS_TRY(start_scout_process(io));
    // Open the file in libhdf5 for writing even before the first write, because libhdf5 cannot change the mode later.
    // Until then the LoggedFile discards what libhdf5 writes.
    CODECFS_TRY(file_.open_as_allowed());
    warn_of_damage(path);

    CODECFS_ASSIGN(ObjectTree tree, ObjectTree::make(file_.file.get(), file_.path, file_.status, *file_.watch));
    tree_.emplace(std::move(tree));
    dimensions_.emplace(file_.file.get(), *tree_, *file_.watch);
    netcdf_ = tree_->is_netcdf();
    file_.reopened = [this] {
      tree_->use(file_.file.get());
      dimensions_->use(file_.file.get());
    };
    configure_scout();
    return {};
  }

  [[nodiscard]] std::optional<Error> why_not_writable(bool may_write) const {
    if (!may_write) return Error{EROFS, "it was mounted with -o ro"};
    if (file_.bytes->missing_log()) return Error{EROFS, file_.bytes->missing_log()->reason};
    if (file_.bytes->locked_by_another())
      return Error{EROFS, fmt::format("{}: another program has it open for writing", file_.path)};
    if (access(file_.path.c_str(), W_OK) != 0)
      return Error{EROFS, fmt::format("{}: {}", file_.path, std::strerror(errno))};
    if (access(file_.directory.c_str(), W_OK | X_OK) != 0)
      return Error{EROFS,
                   fmt::format("{}: {}; the log of changes is beside the file", file_.directory, std::strerror(errno))};
    if (marked_as_open(file_.fd.get()))
      return Error{EROFS,
                   fmt::format("{}: it is marked as open for writing (h5clear -s removes the mark)", file_.path)};
    return std::nullopt;
  }

  void warn_of_damage(const std::string& path) const {
    if (marked_as_open(file_.fd.get()))
      log::warning("{} is marked as open for writing: a writer has it open or crashed (h5clear -s removes the mark)",
                   path);
    hsize_t size = 0;
    if (H5Fget_filesize(file_.file.get(), &size) >= 0 && size > file_.bytes->size())
      log::warning("{} is truncated: it has {} bytes of {}", path, file_.bytes->size(), size);
  }

  // Starts the process that tests each access for crashes. Not in the crash tests, whose files exist in a simulated
  // filesystem only.
  Result<> start_scout_process(const FileIo& io) {
    if (&io != &real_file_io()) return {};
    CODECFS_ASSIGN(std::unique_ptr<Scout> scout, Scout::start(file_.path, !file_.not_writable));
    scout_ = scout.get();
    file_.watch = std::move(scout);
    return {};
  }

  void configure_scout() {
    if (scout_ == nullptr) return;
    const auto name = [this](uint64_t address) {
      const auto object = tree_->number_of(address);
      return object ? tree_->path(*object) : std::string();
    };
    scout_->set_context(
        {[this](uint64_t address, size_t count) { return tree_->following(address, count); }, name, netcdf_});
  }

  // Runs one change of the tree. Closes all cached datasets before and after: their metadata may be outdated, and
  // libhdf5 does not free removed objects while they are open.
  template <class Lock, class Step>
  auto change(Step step) -> decltype(step(std::declval<TreeWriter&>())) {
    return guarded([&]() -> decltype(step(std::declval<TreeWriter&>())) {
      const std::lock_guard guard(opened_mutex_);
      const Lock lock;
      CODECFS_TRY(writable());
      CODECFS_TRY(file_.check_all());
      if (netcdf_) (void)dimensions_->record_shape(0);  // record the shapes before the first change
      close_datasets();
      struct AtTheEnd {
        Hdf5Source& source;
        ~AtTheEnd() { source.close_datasets(); }
      } const at_the_end{*this};
      TreeWriter writer(file_, *tree_, *dimensions_, netcdf_);
      return step(writer);
    });
  }

  // The caller must hold opened_mutex_.
  void close_datasets() {
    recent_.clear();
    by_id_.clear();
  }

  Result<> exchange(ObjectId id, Recoding& recoding, bool& leaves_hole) {
    Result<> done;
    {
      const LibraryLock lock;
      CODECFS_TRY(tree_->open(id));  // fails if it was removed meanwhile
      done = recoding.exchange();
      leaves_hole = done && recoding.fits_into_hole();
      tree_->use(file_.file.get());
      dimensions_->use(file_.file.get());
    }
    forget(id);
    return done;
  }

  // Moves the chunks to close the gaps after a re-encoding. The pipeline has been replaced already, so a failure only
  // costs space.
  void pack(ObjectId id, const Progress& wanted) {
    const Result<> packed = [&]() -> Result<> {
      CODECFS_ASSIGN(const std::shared_ptr<Dataset> dataset, current(id));
      Progress progress;
      progress.cancelled = wanted.cancelled;
      Recoding packing(file_, *dataset);
      CODECFS_TRY(packing.prepare_packing());
      CODECFS_TRY(packing.copy(progress));
      bool leaves_hole = false;
      return exchange(id, packing, leaves_hole);
    }();
    if (!packed) log::info("{}: the space of the old chunks stays unused: {}", file_.path, packed.error().reason);
  }

  // Retries with a reopened dataset if it was outdated meanwhile.
  template <class Use>
  auto with_dataset(ObjectId id, const Use& use) -> decltype(use(std::declval<Dataset&>())) {
    constexpr int kTries = 4;
    for (int round = 1;; ++round) {
      CODECFS_ASSIGN(const std::shared_ptr<Dataset> dataset, opened(id));
      auto result = use(*dataset);
      if (!dataset->outdated()) return result;
      forget(id);
      if (result || round == kTries) return result;
    }
  }

  // Returns the cached dataset or opens it, and evicts the least recently used ones.
  Result<std::shared_ptr<Dataset>> opened(ObjectId id) {
    std::vector<std::shared_ptr<Dataset>> dropped;  // declared first: closed after the mutex is released
    const std::lock_guard guard(opened_mutex_);
    if (by_id_.contains(id)) return opened_now(id);
    uint64_t held = 0;
    for (const Opened& opened : recent_) held += memory_estimate(opened.dataset->facts());
    while (!recent_.empty() && (recent_.size() >= kOpenDatasets || held > kMaxHeld)) {
      held -= memory_estimate(recent_.back().dataset->facts());
      dropped.push_back(std::move(recent_.back().dataset));
      by_id_.erase(recent_.back().id);
      recent_.pop_back();
    }
    return opened_now(id);
  }

  // The same; the caller must hold opened_mutex_.
  Result<std::shared_ptr<Dataset>> opened_now(ObjectId id) {
    if (const auto known = by_id_.find(id); known != by_id_.end()) {
      recent_.splice(recent_.begin(), recent_, known->second);
      return recent_.front().dataset;
    }
    const LibraryLock lock;
    CODECFS_ASSIGN(Handle handle, tree_->open(id));
    if (H5Iget_type(handle.get()) != H5I_DATASET) return fail(EISDIR, "{} is a group", tree_->path(id));
    CODECFS_ASSIGN(std::shared_ptr<Dataset> dataset, Dataset::open(file_, std::move(handle), tree_->path(id)));
    show_record_shape(*dataset);
    recent_.push_front({id, dataset});
    by_id_[id] = recent_.begin();
    return dataset;
  }

  Result<std::vector<std::string>> dimension_names(ObjectId id) {
    return guarded([&]() -> Result<std::vector<std::string>> {
      return with_dataset(id, [&](const Dataset& dataset) -> Result<std::vector<std::string>> {
        const LibraryLock lock;
        return dimensions_->names(id, dataset);
      });
    });
  }
  Result<> store_shape(ObjectId id) {
    return guarded([&]() -> Result<> {
      CODECFS_TRY(writable());
      return with_dataset(id, [](Dataset& dataset) { return dataset.store_shape(); });
    });
  }
  Result<> store_shape_of_member(ObjectId group, std::string_view name) {
    CODECFS_ASSIGN(const Entry entry, find(group, name));
    return entry.kind == EntryKind::variable ? store_shape(entry.object) : Result<>();
  }

  void show_record_shape(Dataset& dataset) {
    const Variable& facts = dataset.facts();
    const auto limits = std::span(facts.max_shape).first(std::min(dataset.rank(), facts.max_shape.size()));
    const auto is_unlimited = [](const auto& limit) { return !limit; };
    if (!netcdf_ || facts.storage != Storage::chunked || std::ranges::none_of(limits, is_unlimited)) return;
    const std::vector<uint64_t>* shape = dimensions_->record_shape(dataset.address());
    if (shape == nullptr || shape->size() != dataset.rank()) return;
    if (const Result<> shown = dataset.show_shape(*shape); !shown)
      log::warning("{} is shown as it is stored: the lengths of its dimensions: {}", dataset.name(),
                   shown.error().reason);
  }

  // Returns a dataset that is not outdated, for operations that cannot be retried.
  Result<std::shared_ptr<Dataset>> current(ObjectId id) {
    for (;;) {
      CODECFS_ASSIGN(std::shared_ptr<Dataset> dataset, opened(id));
      {
        const LibraryLock lock;
        if (dataset->id() >= 0) return dataset;
        if (!dataset->outdated()) return fail_library(EIO, "{} cannot be opened", dataset->name());
      }
      forget(id);
    }
  }

  void forget(ObjectId id) {
    std::shared_ptr<Dataset> dropped;
    const std::lock_guard guard(opened_mutex_);
    const auto known = by_id_.find(id);
    if (known == by_id_.end()) return;
    dropped = std::move(known->second->dataset);
    recent_.erase(known->second);
    by_id_.erase(known);
  }

  Result<> check_all() {
    const LibraryLock lock;
    return file_.check_all();
  }

  SourceFile file_;
  Scout* scout_ = nullptr;           // file_.watch, if it is a Scout
  std::atomic<bool> begun_ = false;  // begin_writing() has succeeded
  bool netcdf_ = false;
  std::optional<ObjectTree> tree_;        // guarded by the LibraryLock
  std::optional<Dimensions> dimensions_;  // guarded by the LibraryLock

  std::mutex recoding_mutex_;

  std::mutex opened_mutex_;
  std::list<Opened> recent_;                                         // latest first; guarded by opened_mutex_
  std::unordered_map<ObjectId, std::list<Opened>::iterator> by_id_;  // guarded by opened_mutex_
};

}  // namespace
}  // namespace hdf5

void prepare_sources() { hdf5::start_fork_server(); }

bool looks_like_hdf5(int fd, uint64_t within) { return hdf5::find_signature(fd, within).has_value(); }

Result<std::unique_ptr<Source>> open_hdf5(const std::string& path, bool may_write, FileIo& io) {
  return hdf5::guarded([&] { return hdf5::Hdf5Source::open(path, may_write, io); });
}

Result<std::string> check_hdf5_log(const std::string& path) {
  hdf5::await_survivor(path);
  CODECFS_ASSIGN(const hdf5::LoggedFile::Recovery found, hdf5::check_log(path));
  if (!found.pending) return fmt::format("{}: no changes are pending", path);
  return fmt::format("{}: {} committed change{} pending ({} bytes)", path, found.transactions,
                     found.transactions == 1 ? " is" : "s are", found.bytes);
}

namespace {

std::string describe_recovery(const std::string& path, const hdf5::LogRecovery& found) {
  if (!found.pending) return fmt::format("{}: no changes were pending", path);
  return fmt::format("{}: {} committed change{} recovered ({} bytes)", path, found.transactions,
                     found.transactions == 1 ? " was" : "s were", found.bytes);
}

}  // namespace

Result<std::string> recover_hdf5_log(const std::string& path) {
  hdf5::await_survivor(path);
  CODECFS_ASSIGN(const hdf5::LogRecovery found, hdf5::recover_log(path));
  return describe_recovery(path, found);
}

// Only HDF5 files have a log.
Result<std::string> recover_after_crash(int source, int log) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", source), error);
  CODECFS_ASSIGN(const hdf5::LogRecovery found, hdf5::recover_as_survivor(source, log));
  return describe_recovery(path.string(), found);
}

}  // namespace codecfs
