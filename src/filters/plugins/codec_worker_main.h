#pragma once
// What a codec worker runs: it loads one plugin library, and calls its functions at the daemon's request.

#include <cstdint>

namespace codecfs::filters {

/// A WorkerMain. The first datagram on `control` brings the descriptors of a Channel.
void run_codec_worker(int control);

/// The word of WorkerTrace that is 1 if the plugin ended the process by exit().
inline constexpr uint32_t kExitWord = 0;

}  // namespace codecfs::filters
