#pragma once
// The process that runs libhdf5 for one file.

namespace codecfs::worker {

/// The main function of the process; see calls.h. Returns when the daemon has closed its end of `control`.
void run_hdf5_worker(int control);

}  // namespace codecfs::worker
