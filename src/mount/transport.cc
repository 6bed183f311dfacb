#include "mount/transport.h"

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/human.h"
#include "base/log.h"
#include "fs/passthrough/memory_budget.h"
#include "fs/passthrough/newer_protocol.h"

namespace codecfs::mount {
namespace {

/// The bytes of the file with which the kernel and libfuse are tried: so small that its memory is cheap, but with room
/// for a large folio.
constexpr size_t kTried = size_t{64} << 10;

/// Answers INIT, which the kernel sends first.
Result<> answer_init(fuse_session* session, const fs::Mount& mount) {
  while (!mount.is_initialised && fuse_session_exited(session) == 0) {
    fuse_buf request{};
    const int size = fuse_session_receive_buf(session, &request);
    if (size > 0) fuse_session_process_buf(session, &request);
    std::free(request.mem);
    if (size <= 0 && size != -EINTR) return fail(size < 0 ? -size : ENODEV, "the mount has ended");
  }
  return {};
}

/// What the mount must be like.
Result<> check_mount(const Options& options, const fs::Mount& mount) {
  if (!mount.filesystem.read_only()) return fail(EINVAL, "only read-only mounts (-o ro) pass chunks through");
  if (options.coherent) return fail(EINVAL, "with -o coherent, chunks may change, so they are not passed through");
  if (options.idle_seconds != 0)
    return fail(EINVAL,
                "with -o idle=, the kernel must ask for each chunk, so that a source that was changed is noticed");
  return {};
}

/// Makes a backing file, as one of a chunk is made.
Result<> try_device(fs::FuseBackingDevice& device) {
  CODECFS_ASSIGN(const bool has_large_folios, device.files().has_large_folios(kTried));
  if (!has_large_folios)
    return fail(EOPNOTSUPP,
                "this kernel has no large folios in tmpfs (Linux 6.14 has), without which nothing is gained");
  CODECFS_ASSIGN(Buffer content, Buffer::allocate(kTried));
  Result<int32_t> id = device.store(content.bytes());
  if (!id && id.error().code == EPERM)
    return fail(EPERM, "backing files need CAP_SYS_ADMIN in the first user namespace, as root has it");
  if (!id) return pass_on(id);
  device.close(*id);
  return {};
}

Result<std::unique_ptr<fs::Passthrough>> set_up_passthrough(const Options& options, fuse_session* session,
                                                            fs::Mount& mount) {
  uint64_t budget = options.passthrough_bytes;
  if (budget == 0) {
    CODECFS_ASSIGN(budget, fs::memory_budget());
  }
  // Some more, for files that mappings keep after they were evicted.
  Result<fs::MemoryFiles> files = fs::MemoryFiles::create(budget + budget / 8);
  if (!files && files.error().code == EPERM) return fail(EPERM, "files in memory need CAP_SYS_ADMIN, as root has it");
  if (!files) return pass_on(files);
  mount.offers_passthrough = true;
  CODECFS_TRY(answer_init(session, mount));
  if (FUSE_VERSION < FUSE_MAKE_VERSION(3, 14))
    return fail(EOPNOTSUPP, "this libfuse is older than 3.14, which passthrough needs");
  if (!fs::kernel_has_passthrough())
    return fail(EOPNOTSUPP, "this kernel has no FUSE passthrough (Linux 6.9 has, with CONFIG_FUSE_PASSTHROUGH)");
  auto device = std::make_unique<fs::FuseBackingDevice>(fuse_session_fd(session), *std::move(files));
  CODECFS_TRY(try_device(*device));
  log::debug("decoded chunks are passed through in at most {} of memory", human_bytes(budget));
  using enum fs::BackingFiles::Policy;
  return std::make_unique<fs::Passthrough>(std::move(device), budget, mount.filesystem.context().stats,
                                           options.transport == fs::Transport::automatic ? if_better : always);
}

std::unexpected<Error> refused(const Error& error) {
  return fail(error.code, "-o transport=passthrough: {}", error.reason);
}

}  // namespace

Result<> check_transport(const Options& options, const fs::Mount& mount) {
  if (options.transport != fs::Transport::passthrough) return {};
  if (const Result<> possible = check_mount(options, mount); !possible) return refused(possible.error());
  return {};
}

Result<> choose_transport(const Options& options, fuse_session* session, fs::Mount& mount) {
  using enum fs::Transport;
  fs::MountContext& context = mount.filesystem.context();
  context.kernel.transport = options.transport == automatic ? push : options.transport;
  if (options.transport != passthrough && options.transport != automatic) return {};
  // Usual for writable mounts, which need no message.
  if (options.transport == automatic && !check_mount(options, mount)) return {};
  Result<std::unique_ptr<fs::Passthrough>> made = set_up_passthrough(options, session, mount);
  if (!made && options.transport == passthrough) return refused(made.error());
  if (!made) {
    log::debug("decoded chunks are pushed into the page cache: {}", made.error().reason);
    return {};
  }
  context.kernel.transport = passthrough;
  context.kernel.passthrough = *std::move(made);
  context.stats.passthrough = 1;
  return {};
}

}  // namespace codecfs::mount
