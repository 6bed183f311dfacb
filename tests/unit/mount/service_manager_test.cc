// What the service manager receives: datagrams to the socket that NOTIFY_SOCKET names.

#include "mount/service_manager.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/log.h"
#include "base/unique_fd.h"

namespace codecfs::mount {
namespace {

class ServiceManagerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "codecfs_notify_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override {
    unsetenv("NOTIFY_SOCKET");
    std::filesystem::remove_all(directory_);
  }

  /// Sets NOTIFY_SOCKET and receives there.
  void listen(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof address.sun_path);
    if (name[0] == '@') address.sun_path[0] = '\0';
    socket_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address),
                     static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())),
              0)
        << strerror(errno);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  /// None if nothing was sent: datagrams of a Unix socket have arrived when they are sent.
  std::optional<std::string> received() {
    char text[1024];
    const ssize_t size = ::recv(socket_.get(), text, sizeof text, MSG_DONTWAIT);
    if (size < 0) return std::nullopt;
    return std::string(text, static_cast<size_t>(size));
  }
  static std::string latest_message() {
    std::string text = log::recent();
    if (text.ends_with('\n')) text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  }

  std::filesystem::path directory_;
  UniqueFd socket_;
};

TEST_F(ServiceManagerTest, IsToldThatTheMountIsReady) {
  listen((directory_ / "socket").string());
  ServiceManager().ready("a.h5 is mounted on /mnt");
  EXPECT_EQ(received(), fmt::format("READY=1\nMAINPID={}\nSTATUS=a.h5 is mounted on /mnt", getpid()));
  EXPECT_EQ(received(), std::nullopt);
}

TEST_F(ServiceManagerTest, IsToldThatTheMountEnds) {
  listen((directory_ / "socket").string());
  ServiceManager().stopping("storing");
  EXPECT_EQ(received(), "STOPPING=1\nSTATUS=storing");
}

TEST_F(ServiceManagerTest, MayUseAnAbstractSocket) {
  listen(fmt::format("@codecfs-test-{}", directory_.string()));
  ServiceManager().stopping("storing");
  EXPECT_EQ(received(), "STOPPING=1\nSTATUS=storing");
}

TEST_F(ServiceManagerTest, MayUseAPathOfTheGreatestLength) {
  constexpr size_t kMax = sizeof(sockaddr_un::sun_path) - 1;
  std::string name = (directory_ / "").string();
  name.append(kMax - name.size(), 's');
  listen(name);
  ServiceManager().stopping("storing");
  EXPECT_EQ(received(), "STOPPING=1\nSTATUS=storing");
}

// A child that inherits the variable would report its own state as that of the mount.
TEST_F(ServiceManagerTest, TheVariableIsNotInherited) {
  listen((directory_ / "socket").string());
  const ServiceManager manager;
  EXPECT_EQ(getenv("NOTIFY_SOCKET"), nullptr);
  const ServiceManager of_child;
  of_child.ready("child");
  EXPECT_EQ(received(), std::nullopt);
  manager.stopping("storing");
  EXPECT_TRUE(received());
}

TEST_F(ServiceManagerTest, WithoutTheVariableNothingIsReported) {
  unsetenv("NOTIFY_SOCKET");
  const std::string before = log::recent();
  const ServiceManager manager;
  manager.ready("ready");
  manager.stopping("storing");
  setenv("NOTIFY_SOCKET", "", 1);
  ServiceManager().ready("ready");
  EXPECT_EQ(log::recent(), before);
}

TEST_F(ServiceManagerTest, OtherAddressesAreNamedInTheLog) {
  for (const std::string& name : {std::string("vsock:2:1234"), std::string("relative/path"),
                                  "/" + std::string(sizeof(sockaddr_un::sun_path) - 1, 'x')}) {
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    ServiceManager().ready("ready");
    EXPECT_TRUE(latest_message().ends_with("NOTIFY_SOCKET=" + name + " is not a supported socket address"))
        << latest_message();
  }
}

TEST_F(ServiceManagerTest, AServiceManagerThatHasEndedIsAWarning) {
  listen((directory_ / "socket").string());
  const ServiceManager manager;
  socket_.reset();
  manager.ready("ready");
  EXPECT_TRUE(latest_message().ends_with("cannot notify the service manager: Connection refused")) << latest_message();
}

}  // namespace
}  // namespace codecfs::mount
