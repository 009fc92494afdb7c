// rocWMMA's fragments are used as CUDA's are.
namespace rocwmma { using namespace nvcuda::wmma; }
