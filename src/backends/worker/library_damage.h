#pragma once
// Notices when libhdf5 reports damage. Its error paths have been seen to free memory that was never allocated, so after
// that it must not be used any more.

#include <cstdint>
#include <string>

namespace codecfs::worker {

/// During its lifetime, records whether libhdf5 reports damage in a call of this thread. At most one per thread.
class DamageReports {
 public:
  /// `wanted`: otherwise nothing is recorded.
  explicit DamageReports(bool wanted);
  ~DamageReports();
  DamageReports(const DamageReports&) = delete;
  DamageReports& operator=(const DamageReports&) = delete;

  [[nodiscard]] bool any() const { return any_; }
  /// The object that was accessed, or its attributes (hdf5::attributes_of_object()); 0: unknown.
  [[nodiscard]] uint64_t address() const { return address_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }

 private:
  friend struct DamageRecorder;
  bool any_ = false;
  uint64_t address_ = 0;
  std::string reason_;
};

}  // namespace codecfs::worker
