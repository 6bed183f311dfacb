#include "backends/worker/library_damage.h"

#include <hdf5.h>

#include "backends/hdf5/library/access_recorder.h"
#include "backends/hdf5/library/failure_report.h"
#include "backends/hdf5/library/library_lock.h"
#include "base/worker_process.h"

namespace codecfs::worker {
namespace {

thread_local DamageReports* reports = nullptr;

}  // namespace

struct DamageRecorder {
  static void record(bool in_attributes, const char* reason) {
    if (reports == nullptr || reports->any_) return;
    reports->any_ = true;
    const uint64_t accessed = accessed_address();
    reports->address_ = in_attributes && accessed != 0 ? hdf5::attributes_of_object(accessed) : accessed;
    reports->reason_ = reason;
  }
};

namespace {

// libhdf5's callback on failure of one of its functions.
herr_t note_failure(hid_t stack, void*) {
  const hdf5::FailureReport report = hdf5::report_failure(stack);
  if (report.out_of_memory) end_out_of_memory();
  if (report.is_damage) DamageRecorder::record(report.in_attributes, report.reason);
  return 0;
}

}  // namespace

DamageReports::DamageReports(bool wanted) {
  if (!wanted) return;
  reports = this;
  const hdf5::LibraryLock lock;
  H5Eset_auto2(H5E_DEFAULT, note_failure, nullptr);
}

DamageReports::~DamageReports() { reports = nullptr; }

}  // namespace codecfs::worker
