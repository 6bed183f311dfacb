#pragma once
// A Watch that sends another process ahead. What that process comes through, libhdf5 may do here; what it dies of is
// refused from then on, with the reason, and the process is started anew.
//
// Each thing is looked at once. Objects are looked at in the order in which they were handed out, a few ahead of those
// that are asked for: whoever lists a group and then asks for each of its variables does not wait for each.
//
// What was found damaged as a whole (its header, its attributes) is refused to all. Where only one thing about an
// object is deadly (its index of chunks, one chunk), only that is.

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
  /// Has the file opened, `for_writing` as we are going to open it. EIO where nobody survives that.
  static Result<std::unique_ptr<Scout>> start(const std::string& path, bool for_writing);
  ~Scout() override { process_.kill(); }

  /// The addresses of `count` objects at most from this one on, in the order in which they are asked for; and what an
  /// object is called in messages. To be told once there is a tree, together with whether netCDF wrote the file.
  struct Surroundings {
    std::function<std::vector<uint64_t>(uint64_t address, size_t count)> following;
    std::function<std::string(uint64_t address)> name;
    bool netcdf = false;
  };
  void know(Surroundings surroundings) { around_ = std::move(surroundings); }

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
  Result<> settle() override;

 private:
  struct Question {
    ScoutTask task = ScoutTask::open;
    uint64_t address = 0;
    uint64_t number = 0;
    auto operator<=>(const Question&) const = default;
  };
  struct Death {
    std::string manner;    // "libhdf5 crashes (Segmentation fault)"
    std::string verdict;   // "the file is damaged"
    uint64_t address = 0;  // of what it looked at; 0: nothing that has one
    /// Somebody else has ended it (out of memory, an administrator): it is asked once more.
    bool is_violent = false;
    /// libhdf5 told of damage: it did not crash.
    bool is_told = false;
  };

  Scout(std::string path, bool for_writing);
  Result<> be_ready();
  Result<> start_process();
  Death bury();
  Result<ScoutGift> ask(const Question& question, std::string_view text = {});
  Result<> pass(const Question& question, std::string_view text = {});
  Result<> refuse(const Question& question, const Death& death);
  std::optional<Result<ScoutGift>> await_answer();
  bool send_ahead(uint64_t address);
  void collect_one();
  void collect_ahead();
  [[nodiscard]] std::string name_of(uint64_t address) const;

  const std::string path_;
  const std::string working_directory_;
  const bool for_writing_;
  Surroundings around_;
  ScoutProcess process_;
  Result<> opened_;  // how the latest process fared with that
  bool writing_ = false;
  bool settled_ = false;

  std::unordered_set<uint64_t> objects_;                      // that were looked at
  std::map<ScoutTask, std::unordered_set<uint64_t>> passed_;  // other questions about objects
  std::unordered_map<uint64_t, Error> damaged_;               // objects
  std::map<Question, Error> refused_;
  unsigned deaths_ = 0;
  unsigned damages_ = 0;
  unsigned violent_deaths_ = 0;

  std::deque<std::vector<uint64_t>> ahead_;  // objects that were asked for and not answered yet
  uint64_t next_ = 0;                        // the object after those
  size_t window_ = 1;                        // objects to be asked for at once
};

}  // namespace codecfs::hdf5
