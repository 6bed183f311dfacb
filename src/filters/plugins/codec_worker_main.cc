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
#include <utility>

#include "base/fd_passing.h"
#include "base/sandbox.h"
#include "base/shared_channel.h"
#include "base/worker_process.h"
#include "filters/plugins/codec_messages.h"
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

class CodecWorker {
 public:
  explicit CodecWorker(Channel& channel) : channel_(channel) {}

  /// False if it was the last request.
  bool serve(const Channel::Message& request) {
    MessageReader arguments(request.head);
    const RequestHead head = arguments.request_head();
    if (head.memory != 0 && head.memory != memory_) limit_memory(head.memory);
    memory_ = head.memory;
    begin_step(head.serial, head.seconds);
    const auto task = static_cast<CodecTask>(request.kind);
    FilteredBytes bulk;
    const Result<MessageWriter> results = call(task, arguments, request.bulk, bulk);
    end_step();
    MessageWriter answer;
    answer.head(results ? AnswerHead{} : AnswerHead{results.error().code, results.error().reason});
    std::string bytes = answer.bytes();
    if (results) bytes += results->bytes();
    const Result<> sent = channel_.send(head.serial, bytes, results ? bulk.bytes() : Bytes());
    if (!sent && sent.error().code == ENOMEM) end_out_of_memory();
    return sent && task != CodecTask::finalize;
  }

 private:
  Result<MessageWriter> call(CodecTask task, MessageReader& arguments, Bytes in, FilteredBytes& out) try {
    MessageWriter results;
    if (task == CodecTask::load) {
      const std::string path = arguments.text();
      CODECFS_ASSIGN(PluginLibrary library, open_plugin(path, arguments.text()));
      plugin_.emplace(std::move(library));
      results.description(describe(plugin_->library())).number(enter_sandbox(kMaxFiles));
      return results;
    }
    if (!plugin_) return fail(EINVAL, "no library is loaded");
    switch (task) {
      case CodecTask::filter: {
        const auto flags = static_cast<unsigned>(arguments.number());
        const uint64_t most = arguments.number();
        if (!plugin_->library().hdf5) return fail(EINVAL, "the library has no HDF5 filter");
        CODECFS_ASSIGN(out, plugin_->run_filter(flags, arguments.parameters(), in, most));
        return results;
      }
      case CodecTask::parameters_of: {
        CODECFS_ASSIGN(const size_t codec, index(arguments));
        CODECFS_ASSIGN(const std::vector<uint32_t> parameters, plugin_->parameters_of(codec, arguments.text()));
        results.parameters(parameters);
        return results;
      }
      case CodecTask::codec_of: {
        CODECFS_ASSIGN(const size_t codec, index(arguments));
        CODECFS_ASSIGN(const std::string text, plugin_->codec_of(codec, arguments.parameters()));
        results.text(text);
        return results;
      }
      case CodecTask::modified_parameters: {
        CODECFS_ASSIGN(const size_t codec, index(arguments));
        const std::vector<uint32_t> given = arguments.parameters();
        CODECFS_ASSIGN(const ModifiedParameters modified,
                       plugin_->modified_parameters(codec, given, arguments.chunk()));
        results.parameters(modified.visible).parameters(modified.working);
        return results;
      }
      case CodecTask::prepare_dataset: {
        if (!plugin_->library().hdf5) return fail(EINVAL, "the library has no HDF5 filter");
        CODECFS_ASSIGN(const std::vector<uint32_t> parameters,
                       prepare_dataset(*plugin_->library().hdf5, arguments.dataset()));
        results.parameters(parameters);
        return results;
      }
      case CodecTask::finalize: plugin_->finalize(); return results;
      default: return fail(EINVAL, "an unknown request");
    }
  } catch (const std::bad_alloc&) {
    end_out_of_memory();
  } catch (const std::exception& e) {
    return fail(EIO, "{}: {}", plugin_ ? plugin_->library().path : "a plugin", e.what());
  }

  Result<size_t> index(MessageReader& arguments) const {
    const uint64_t codec = arguments.number();
    if (codec >= plugin_->library().codecs.size()) return fail(EINVAL, "the library has no codec {}", codec);
    return codec;
  }

  Channel& channel_;
  uint64_t memory_ = 0;  // bytes; the limit in force
  std::optional<DirectCalls> plugin_;
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
