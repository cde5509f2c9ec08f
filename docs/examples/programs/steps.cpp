// A program in C++ that reports its steps. Where nobody asks for events, it only works.
//
//     g++ -std=c++17 -O2 steps.cpp -o steps

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Event lines: one write each, at the end of the file.
class Events {
 public:
  Events() {
    const char* path = std::getenv("TORCHGAUGE_EVENTS");
    if (path != nullptr) file_ = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  }
  void say(const std::string& line) const {
    if (file_ < 0) return;
    const std::string text = line + "\n";
    if (write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::exit(1);
  }

 private:
  int file_ = -1;
};

// A key's value in the flat JSON of the run file: a number, or a text without its quotes.
std::string asked(const std::string& key, const std::string& usual) {
  const char* given = std::getenv("TORCHGAUGE_RUN");
  std::string text = given == nullptr ? "" : given;
  if (!text.empty() && text[0] != '{') {
    std::ifstream file(text);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  const auto at = text.find("\"" + key + "\":");
  if (at == std::string::npos) return usual;
  const auto begin = text.find_first_not_of(" \"", at + key.size() + 3);
  return text.substr(begin, text.find_first_of(",}\"", begin) - begin);
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string phase(const char* event, const char* name, const char* key, double value) {
  return std::string("{\"event\":\"") + event + "\",\"phase\":\"" + name + "\",\"" + key +
         "\":" + std::to_string(value) + "}";
}

double work() {
  double sum = 0;
  for (int i = 1; i < 200000; ++i) sum += std::sqrt(static_cast<double>(i));
  return sum;
}

}  // namespace

int main() {
  constexpr int kSamples = 16;
  const int warmup = std::stoi(asked("warmup", "3"));
  const int measured = std::stoi(asked("measured", "20"));
  const Events events;
  double sum = 0;

  events.say("{\"event\":\"started\",\"version\":4,\"run\":\"" + asked("run", "") + "\"}");
  auto began = Clock::now();
  events.say(phase("phase-began", "warmup", "at_seconds", now()));
  for (int i = 0; i < warmup; ++i) sum += work();
  events.say(phase("phase-ended", "warmup", "seconds", since(began)));

  std::vector<double> times;
  began = Clock::now();
  events.say(phase("phase-began", "measure", "at_seconds", now()));
  for (int i = 0; i < measured; ++i) {
    const auto step = Clock::now();
    sum += work();
    times.push_back(since(step));
  }
  const double seconds = since(began);
  events.say(phase("phase-ended", "measure", "seconds", seconds));

  // What was measured is written once all of it is.
  for (std::size_t i = 0; i < times.size(); ++i) {
    events.say("{\"event\":\"step\",\"index\":" + std::to_string(i) +
               ",\"values\":{\"step_seconds\":" + number(times[i]) + "}}");
  }
  const int samples = kSamples * measured;
  events.say("{\"event\":\"finished\",\"values\":{\"measured_seconds\":" + number(seconds) +
             ",\"samples_count\":" + std::to_string(samples) +
             ",\"throughput_samples_per_second\":" + number(samples / seconds) + "}}");
  std::printf("%g\n", sum);
}
