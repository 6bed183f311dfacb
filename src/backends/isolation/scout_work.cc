// The work of a scout: performs the same libhdf5 calls as the daemon, on its own handle of the same file.
//
// One thread, one file. Ordinary errors are ignored: the daemon will get the same ones.

#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "backends/hdf5/format/chunk_index.h"
#include "backends/hdf5/library/failure_report.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/metadata/attribute_values.h"
#include "backends/hdf5/metadata/dimensions.h"
#include "backends/hdf5/metadata/object_tree.h"
#include "backends/hdf5/source/dataset.h"
#include "backends/hdf5/source/source_file.h"
#include "backends/isolation/scout_messages.h"
#include "backends/isolation/scout_process.h"
#include "base/log.h"
#include "model/limits.h"

namespace codecfs::hdf5 {
namespace {

// libhdf5's callback on failure of one of its functions. Damaged attributes only fail the read of the attributes; the
// object is still listed.
herr_t note_failure(hid_t stack, void*) {
  const FailureReport report = report_failure(stack);
  if (report.out_of_memory) exit_out_of_memory();
  if (report.is_damage && !report.in_attributes) exit_damaged(report.reason);
  return 0;
}

/// During its lifetime, selects whether such a failure ends the process.
class FailuresOfLibrary {
 public:
  explicit FailuresOfLibrary(bool deadly) {
    H5Eget_auto2(H5E_DEFAULT, &before_, nullptr);
    H5Eset_auto2(H5E_DEFAULT, deadly ? note_failure : nullptr, nullptr);
  }
  ~FailuresOfLibrary() { H5Eset_auto2(H5E_DEFAULT, before_, nullptr); }
  FailuresOfLibrary(const FailuresOfLibrary&) = delete;
  FailuresOfLibrary& operator=(const FailuresOfLibrary&) = delete;

 private:
  H5E_auto2_t before_ = nullptr;
};

/// Records each object before it is accessed.
class StepRecorder final : public Watch {
 public:
  Result<> object(uint64_t address) override { return header(address); }
  Result<> header(uint64_t address) override {
    note_step(address);
    if (damaged.contains(address)) return fail(EIO, "it is damaged");
    return {};
  }
  std::unordered_set<uint64_t> damaged;
};

class Work {
 public:
  Result<ScoutGift> answer(const ReceivedRequest& request) {
    set_limits(file_.bytes ? file_.bytes->size() : 0, 0);
    note_step(request.head.address);
    netcdf_ = request.head.netcdf != 0;
    if (request.head.task != ScoutTask::open && !file_.file) return fail(EIO, "the file is not open");
    const FailuresOfLibrary failures(request.head.strict != 0 && request.head.task != ScoutTask::chunk);
    const uint64_t address = request.head.address;
    switch (request.head.task) {
      case ScoutTask::open: return without_gift(open(request));
      case ScoutTask::objects:
        for (const uint64_t object : request.addresses) (void)look_at(object);
        return std::nullopt;
      case ScoutTask::links: return without_gift(links(address));
      case ScoutTask::list: return without_gift(list(address));
      case ScoutTask::find: return without_gift(find(address, request.text));
      case ScoutTask::places: return without_gift(places());
      case ScoutTask::numbering: return without_gift(numbering());
      case ScoutTask::name: return without_gift(name(address));
      case ScoutTask::attributes: return without_gift(attributes(address));
      case ScoutTask::way_to: return without_gift(way_to(address, request.head.number));
      case ScoutTask::index: return without_gift(index(address));
      case ScoutTask::stored_chunks: return stored_chunks(address);
      case ScoutTask::chunk: return chunk(request);
      case ScoutTask::everything: return without_gift(everything());
    }
    return fail(EINVAL, "no such task");
  }

 private:
  static Result<ScoutGift> without_gift(Result<> done) {
    if (!done) return pass_on(done);
    return std::nullopt;
  }

  // Open, close and reopen, as the daemon will: libhdf5 may crash at any of them.
  Result<> open(const ReceivedRequest& request) {
    const size_t end = request.text.find('\0');
    file_.path = request.text.substr(0, end);
    file_.working_directory = request.text.substr(end + 1);
    if (::chdir(file_.working_directory.c_str()) != 0) file_.working_directory = std::string(1, '/');
    file_.directory = file_.path.substr(0, file_.path.rfind('/'));
    watch_->damaged.insert(request.addresses.begin(), request.addresses.end());
    CODECFS_ASSIGN(file_.bytes, LoggedFile::open(file_.path));
    ::flock(file_.bytes->fd(), LOCK_UN);  // the daemon holds the lock
    if (request.head.for_writing == 0) file_.not_writable = Error{EROFS, "it is only read here"};
    set_limits(file_.bytes->size(), 0);
    note_step(0);
    CODECFS_TRY(open_file());
    CODECFS_TRY(look_at_root());
    tree_.reset();
    note_step(0);
    CODECFS_TRY(file_.close_and_hold());
    CODECFS_TRY(file_.bytes->release());
    CODECFS_TRY(open_file());
    return look_at_root();
  }

  // If the file cannot be opened, the error is the answer, and the open is not retried.
  Result<> open_file() {
    const FailuresOfLibrary failures(false);
    return file_.open_as_allowed();
  }

  Result<> look_at_root() {
    hsize_t size = 0;
    H5Fget_filesize(file_.file.get(), &size);
    CODECFS_ASSIGN(ObjectTree tree, ObjectTree::make(file_.file.get(), file_.path, {}, *watch_));
    tree_.emplace(std::move(tree));
    (void)tree_->is_netcdf();
    return {};
  }

  Result<> look_at(uint64_t address) {
    CODECFS_TRY(watch_->object(address));
    Handle object(open_object(file_.file.get(), address));
    if (!object) return fail_library(EIO, "it cannot be opened");
    if (H5Iget_type(object.get()) != H5I_DATASET) return look_at_attributes(object.get(), {netcdf_, false});
    CODECFS_ASSIGN(const std::shared_ptr<Dataset> dataset, Dataset::open(file_, std::move(object), "it"));
    const hid_t id = dataset->id();
    (void)attached_scales(id, dataset->rank());
    (void)integer_attribute(id, "_Netcdf4Coordinates");
    (void)is_dimension_without_variable(id);
    return look_at_attributes(id, {netcdf_, is_dimension_scale(id)});
  }
  static Result<> look_at_attributes(hid_t holder, const AttributeRules& rules) {
    if (!has_many_attributes(holder)) CODECFS_TRY(read_attributes(holder, rules, "it"));
    return {};
  }
  Result<> attributes(uint64_t address) {
    const Handle object(open_object(file_.file.get(), address));
    if (object) (void)read_attributes(object.get(), {netcdf_, false}, "it");
    return {};
  }

  Result<> links(uint64_t address) {
    const Handle group(open_object(file_.file.get(), address));
    if (group) (void)links_of(group.get());
    return {};
  }
  Result<> list(uint64_t address) {
    CODECFS_ASSIGN(ObjectTree tree, ObjectTree::below(file_.file.get(), address, *watch_));
    (void)tree.list(ObjectTree::kRoot);
    return {};
  }
  Result<> find(uint64_t address, const std::string& name) {
    CODECFS_ASSIGN(ObjectTree tree, ObjectTree::below(file_.file.get(), address, *watch_));
    (void)tree.find(ObjectTree::kRoot, name);
    return {};
  }
  Result<> places() {
    tree_->find_places();
    return {};
  }
  Result<> numbering() {
    Dimensions dimensions(file_.file.get(), *tree_, *watch_);
    (void)dimensions.numbers();
    return {};
  }
  Result<> name(uint64_t address) {
    (void)path_of(file_.file.get(), address);
    return {};
  }

  Result<std::shared_ptr<Dataset>> dataset_at(uint64_t address, const std::string& name) {
    if (latest_ && latest_->address() == address && latest_->name() == name) return latest_;
    Handle object(open_object(file_.file.get(), address));
    if (!object || H5Iget_type(object.get()) != H5I_DATASET) return fail_library(EIO, "{} cannot be opened", name);
    CODECFS_ASSIGN(latest_, Dataset::open(file_, std::move(object), name));
    return latest_;
  }
  Result<> way_to(uint64_t address, uint64_t number) {
    CODECFS_ASSIGN(const std::shared_ptr<Dataset> dataset, dataset_at(address, "it"));
    (void)dataset->locate(number);
    return {};
  }
  Result<> index(uint64_t address) {
    const Handle dataset(open_object(file_.file.get(), address));
    if (dataset) (void)count_stored_chunks(dataset.get());
    return {};
  }
  Result<ScoutGift> stored_chunks(uint64_t address) {
    CODECFS_ASSIGN(const std::shared_ptr<Dataset> dataset, dataset_at(address, "it"));
    CODECFS_ASSIGN(const std::vector<uint64_t> numbers,
                   list_stored_chunks(dataset->id(), dataset->facts().grid, dataset->rank()));
    CODECFS_ASSIGN(Buffer buffer, Buffer::copy_of(std::as_bytes(std::span(numbers))));
    return ScoutGift(std::move(buffer));
  }
  Result<ScoutGift> chunk(const ReceivedRequest& request) {
    CODECFS_ASSIGN(const std::shared_ptr<Dataset> dataset, dataset_at(request.head.address, request.text));
    set_limits(file_.bytes->size(), dataset->facts().chunk_bytes.value_or(max_chunk_bytes() / 2));
    note_step(request.head.address);
    CODECFS_ASSIGN(DecodedChunk chunk, dataset->fetch_chunk(request.head.number));
    return ScoutGift(std::move(chunk.bytes));
  }

  Result<> everything() {
    std::unordered_set<uint64_t> seen{tree_->address(ObjectTree::kRoot)};
    std::deque<uint64_t> groups(seen.begin(), seen.end());
    for (; !groups.empty(); groups.pop_front()) {
      const uint64_t at = groups.front();
      if (!watch_->header(at) || !list(at)) continue;
      (void)look_at(at);
      (void)attributes(at);
      const Handle group(open_object(file_.file.get(), at));
      const auto links = group ? links_of(group.get()) : Result<std::vector<Link>>(fail(EIO, "not opened"));
      if (!links) continue;
      for (const Link& link : *links) {
        if (link.info.type != H5L_TYPE_HARD || !seen.insert(link.info.address).second) continue;
        if (!watch_->header(link.info.address)) continue;
        const Handle member(open_object(file_.file.get(), link.info.address));
        if (member && H5Iget_type(member.get()) == H5I_GROUP) {
          groups.push_back(link.info.address);
        } else if (member && H5Iget_type(member.get()) == H5I_DATASET) {
          (void)look_at(link.info.address);
          (void)attributes(link.info.address);
          (void)index(link.info.address);
        }
      }
    }
    return {};
  }

  SourceFile file_;
  StepRecorder* watch_ = static_cast<StepRecorder*>((file_.watch = std::make_unique<StepRecorder>()).get());
  std::optional<ObjectTree> tree_;
  std::shared_ptr<Dataset> latest_;
  bool netcdf_ = false;
};

}  // namespace

void serve_scout(int socket) {
  log::set_level(log::Level::error);
  auto& work = *new Work;  // never destroyed
  const LibraryLock lock;
  while (const auto request = receive_request(socket)) {
    Result<ScoutGift> answer;
    try {
      answer = work.answer(*request);
    } catch (const std::bad_alloc&) {
      exit_out_of_memory();
    } catch (const std::exception& error) {
      answer = fail(EIO, "{}", error.what());
    }
    if (library_ran_out_of_memory()) exit_out_of_memory();
    if (!send_answer(socket, answer)) return;
  }
}

}  // namespace codecfs::hdf5
