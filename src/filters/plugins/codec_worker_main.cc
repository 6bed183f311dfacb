#include "filters/plugins/codec_worker_main.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/fd_passing.h"
#include "base/sandbox.h"
#include "base/shared_channel.h"
#include "base/worker_process.h"
#include "filters/plugins/codec_calls.h"
#include "filters/plugins/dataset_preparation.h"
#include "filters/plugins/direct_calls.h"

namespace codecfs::filters {
namespace {

constexpr unsigned kMaxFiles = 64;

// A plugin that never returns must not survive the daemon: the end of `control` raises SIGIO, which ends the process.
void end_with_daemon(int control) {
  std::signal(SIGIO, SIG_DFL);
  (void)::fcntl(control, F_SETOWN, ::getpid());
  (void)::fcntl(control, F_SETFL, ::fcntl(control, F_GETFL) | O_ASYNC);
}

// Registered before a library is loaded, so that it is called after the library's own.
void note_exit() {
  own_trace()->words[kExitWord] = 1;
  ::_exit(1);
}

class CodecWorker final : public CodecService {
 public:
  explicit CodecWorker(Channel& channel) : channel_(channel) {}

  /// False if it was the last request.
  bool serve(const Channel::Message& request) {
    rpc::Decoder in(request.head, request.bulk);
    const auto head = in.get<RequestHead>();
    if (head.memory != 0 && head.memory != memory_) limit_memory(head.memory);
    memory_ = head.memory;
    begin_step(head.serial, head.seconds);
    rpc::Encoder out;
    call(request.kind, in, out);
    end_step();
    const Result<> sent = channel_.send(head.serial, out.head, out.bulk);
    filtered_ = {};
    if (!sent && sent.error().code == ENOMEM) end_out_of_memory();
    return sent && !is_final_;
  }

  Result<Loaded> load(const std::string& path, const std::string& shown) override {
    CODECFS_ASSIGN(PluginLibrary library, open_plugin(path, shown));
    plugin_.emplace(std::move(library));
    return Loaded{describe(plugin_->library()), enter_sandbox(kMaxFiles)};
  }
  Result<Bytes> filter(unsigned flags, std::span<const uint32_t> parameters, Bytes in, uint64_t most) override {
    CODECFS_TRY(hdf5_filter());
    CODECFS_ASSIGN(filtered_, plugin_->run_filter(flags, parameters, in, most));
    return filtered_.bytes();
  }
  Result<std::vector<uint32_t>> prepare_dataset(const DatasetToPrepare& dataset) override {
    CODECFS_ASSIGN(const H5Z_class2_t* const filter, hdf5_filter());
    return filters::prepare_dataset(*filter, dataset);
  }
  Result<> finalize() override {
    if (plugin_) plugin_->finalize();
    is_final_ = true;
    return {};
  }

 private:
  void call(uint32_t number, rpc::Decoder& in, rpc::Encoder& out) try {
    const bool is_known = CodecTable::visit(number, [&]<class Call>() {
      if constexpr (std::is_same_v<rpc::ClassOf<Call::function>, CodecService>)
        rpc::serve<Call::function>(in, out, *this);
      else if (plugin_)
        rpc::serve<Call::function>(in, out, *plugin_);
      else
        out.put(Result<>(fail(EINVAL, "no library is loaded")));
    });
    if (!is_known) out.put(Result<>(fail(EINVAL, "an unknown request")));
  } catch (const std::bad_alloc&) {
    end_out_of_memory();
  } catch (const std::exception& e) {
    out = {};
    out.put(Result<>(fail(EIO, "{}: {}", plugin_ ? plugin_->library().path : "a plugin", e.what())));
  }

  Result<const H5Z_class2_t*> hdf5_filter() const {
    if (!plugin_ || !plugin_->library().hdf5) return fail(EINVAL, "the library has no HDF5 filter");
    return &*plugin_->library().hdf5;
  }

  Channel& channel_;
  uint64_t memory_ = 0;  // bytes; the limit in force
  bool is_final_ = false;
  std::optional<DirectCalls> plugin_;
  FilteredBytes filtered_;  // until they are sent
};

}  // namespace

void run_codec_worker(int control) {
  Datagram first = receive_datagram(control, 64);
  if (first.fds.size() != 2) return;
  (void)::prctl(PR_SET_NAME, "codecfs-codec");
  end_with_daemon(control);
  ::mallopt(M_ARENA_MAX, 2);  // each arena reserves address space, which is limited
  // Chunks are allocated repeatedly; do not return their memory to the kernel each time.
  ::mallopt(M_MMAP_THRESHOLD, 4 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 16 << 20);
  std::atexit(note_exit);
  Channel channel(std::move(first.fds[0]), std::move(first.fds[1]));
  CodecWorker worker(channel);
  for (;;) {
    const auto request = channel.receive();
    if (!request || !worker.serve(*request)) break;
  }
  ::_exit(0);  // the destructor would unload nothing, and static destructors of plugins may crash
}

}  // namespace codecfs::filters
