#pragma once
// A Watch that lets a child process (a scout) perform each libhdf5 operation first. If the child survives, this process
// may perform it too. If the child crashes, the operation is refused from then on with the reason, and a new child is
// started.
//
// Each operation is checked once. Objects are checked in the order in which the tree lists them, a few ahead of the
// requested one, so that listing a group and then opening each of its variables does not wait for each check.
//
// An object whose header or attributes are damaged is refused for all operations. If only one operation on an object
// crashes (its chunk index, one chunk), only that operation is refused.

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backends/hdf5/library/watch.h"
#include "backends/isolation/scout_messages.h"
#include "backends/isolation/scout_process.h"

namespace codecfs::hdf5 {

class Scout final : public Watch {
 public:
  /// Lets the scout open the file (`for_writing`: for reading and writing). EIO if every scout crashes on that.
  static Result<std::unique_ptr<Scout>> start(const std::string& path, bool for_writing);
  ~Scout() override { process_.kill(); }

  /// `following` returns up to `count` addresses of objects in the order in which they will be requested, starting with
  /// this one; `name` returns an object's name for messages; `netcdf` is whether netCDF wrote the file. Must be set
  /// when the tree exists.
  struct FileContext {
    std::function<std::vector<uint64_t>(uint64_t address, size_t count)> following;
    std::function<std::string(uint64_t address)> name;
    bool netcdf = false;
  };
  void set_context(FileContext context) { context_ = std::move(context); }

  Result<> object(uint64_t address) override;
  Result<> attributes(uint64_t address) override;
  Result<> header(uint64_t address) override;
  Result<> links(uint64_t address) override;
  Result<> list(uint64_t address) override;
  Result<> find(uint64_t address, std::string_view name) override;
  Result<> places() override;
  Result<> numbering() override;
  Result<> name(uint64_t address) override;
  Result<> way_to(uint64_t address, uint64_t number) override;
  Result<> index(uint64_t address) override;
  Result<std::optional<Buffer>> stored_chunks(uint64_t address) override;
  Result<std::optional<Buffer>> chunk(uint64_t address, uint64_t number, const std::string& name,
                                      uint64_t size) override;
  void writing() override { writing_ = true; }
  Result<> check_all() override;

 private:
  struct Question {
    ScoutTask task = ScoutTask::open;
    uint64_t address = 0;
    uint64_t number = 0;
    auto operator<=>(const Question&) const = default;
  };
  struct Crash {
    std::string cause;     // "libhdf5 crashes (Segmentation fault)"
    std::string verdict;   // "the file is damaged"
    uint64_t address = 0;  // of the object that was checked; 0: none
    /// Another program killed the scout (the OOM killer, an administrator): check again.
    bool was_killed = false;
    /// libhdf5 reported the damage and did not crash.
    bool is_reported = false;
  };

  Scout(std::string path, bool for_writing);
  Result<> be_ready();
  Result<> start_process();
  Crash reap();
  Result<ScoutGift> ask(const Question& question, std::string_view text = {});
  Result<> check(const Question& question, std::string_view text = {});
  Result<> refuse(const Question& question, const Crash& crash);
  std::optional<Result<ScoutGift>> await_answer();
  bool send_ahead(uint64_t address);
  void collect_one();
  void collect_ahead();
  [[nodiscard]] std::string name_of(uint64_t address) const;

  const std::string path_;
  const std::string working_directory_;
  const bool for_writing_;
  FileContext context_;
  ScoutProcess process_;
  Result<> opened_;  // result of opening the file in the latest scout
  bool writing_ = false;
  bool all_checked_ = false;

  std::unordered_set<uint64_t> objects_;                       // checked objects
  std::map<ScoutTask, std::unordered_set<uint64_t>> checked_;  // other checks, by object
  std::unordered_map<uint64_t, Error> damaged_;                // by address of the object
  std::map<Question, Error> refused_;
  unsigned crashes_ = 0;
  unsigned damages_ = 0;
  unsigned kills_ = 0;

  std::deque<std::vector<uint64_t>> ahead_;  // batches of objects that were requested and not answered yet
  uint64_t next_ = 0;                        // the object after those batches
  size_t window_ = 1;                        // number of objects in the next batch
};

}  // namespace codecfs::hdf5
