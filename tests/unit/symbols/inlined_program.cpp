// Compiled with -O2 -g and read by symbolizer_test. Has functions inlined into each other, templates,
// lambdas, virtual calls, local classes, and a function split into a hot and a cold part.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shapes {

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
};

class Square : public Shape {
 public:
  explicit Square(double side) : side_(side) { label_ = "square " + std::to_string(side); }
  double area() const override { return side_ * side_; }

 private:
  double side_;
  std::string label_;
};

class Circle : public Shape {
 public:
  explicit Circle(double radius) : radius_(radius) {}
  double area() const override { return 3.14159 * radius_ * radius_; }

 private:
  double radius_;
};

}  // namespace shapes

namespace {

template <class T>
inline T clamp_and_double(T value, T limit) {
  if (value > limit) value = limit;
  return value + value;
}

static inline int third_level(int value) {
  void* block = std::malloc(static_cast<std::size_t>(clamp_and_double(value, 4096)));
  std::free(block);
  return value % 7;
}

static inline int second_level(int value) {
  int sum = 0;
  for (int i = 0; i < value; ++i) sum += third_level(i + sum);
  return sum;
}

__attribute__((noinline)) int first_level(int value) { return second_level(value) + third_level(value); }

__attribute__((cold, noinline)) void complain(const char* text) { std::fprintf(stderr, "%s\n", text); }

}  // namespace

template <class Visit>
__attribute__((noinline)) void for_each_word(const std::map<std::string, int>& words, Visit visit) {
  for (const auto& [word, count] : words) visit(word, count);
}

extern "C" __attribute__((noinline)) int plain_c_function(int value) {
  if (value < 0) {
    complain("negative");
    std::abort();
  }
  return first_level(value);
}

int main(int count, char** arguments) {
  std::vector<std::unique_ptr<shapes::Shape>> all;
  for (int i = 0; i < count * 3; ++i) {
    if (i % 2 == 0)
      all.push_back(std::make_unique<shapes::Square>(i));
    else
      all.push_back(std::make_unique<shapes::Circle>(i));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->area() < b->area(); });
  std::map<std::string, int> words;
  for (int i = 0; i < count; ++i) ++words[arguments[i]];
  int total = 0;
  struct Local {
    static int weigh(const std::string& word) { return static_cast<int>(word.size()); }
  };
  for_each_word(words, [&](const std::string& word, int times) { total += Local::weigh(word) * times; });
  std::function<int(int)> later = [total](int value) { return plain_c_function(value + total); };
  std::printf("%d %f\n", later(count), all.front()->area());
  return 0;
}
