//! Handlers of the signals that a kernel raises: they end the kernel's thread, not the process.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::Once;

use corosensei::trap::CoroutineTrapHandler;

use super::snapshot;
use super::state::{End, Trap};

const SIGNALS: [c_int; 3] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE];

thread_local! {
    static RUNNING: Cell<Option<CoroutineTrapHandler<End>>> = const { Cell::new(None) };
}

/// The earlier handlers of the signals, for traps that aren't a kernel's.
static mut EARLIER: [Option<libc::sigaction>; 3] = [None; 3];

/// Attributes traps on this processor to the coroutine, until [`leave`].
pub(super) fn enter(handler: CoroutineTrapHandler<End>) {
    RUNNING.set(Some(handler));
}

/// Notes that no coroutine runs on this processor.
pub(super) fn leave() {
    RUNNING.set(None);
}

/// Installs the signal handlers once.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (index, &signal) in SIGNALS.iter().enumerate() {
            // SAFETY: plain data; `on_signal` has the signature that SA_SIGINFO asks for. EARLIER is written
            // before the first kernel runs and only read by the handler.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_signal as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                let mut earlier: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(signal, &action, &mut earlier) == 0 {
                    EARLIER[index] = Some(earlier);
                }
            }
        }
    });
}

unsafe extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let context: *mut libc::ucontext_t = context.cast();
    // SAFETY: the kernel hands over valid pointers; the coroutine that runs is the one whose handler is kept,
    // and its C++ frames own nothing.
    unsafe {
        let address = (*info).si_addr().expose_provenance();
        if signal == libc::SIGSEGV && snapshot::first_write(address) {
            return;
        }
        let machine = Machine::of(context);
        if let Some(handler) = RUNNING.get()
            && handler.stack_ptr_in_bounds(machine.stack)
        {
            let trap = Trap {
                signal,
                address,
                code: machine.code,
            };
            let registers = handler.setup_trap_handler(move || End::Trap(trap));
            Machine::jump(context, registers);
            return;
        }
        let index = SIGNALS.iter().position(|&own| own == signal);
        if let Some(Some(earlier)) = index.map(|index| EARLIER[index]) {
            libc::sigaction(signal, &earlier, std::ptr::null_mut());
        }
        // The instruction runs again, now under the earlier handler.
    }
}

/// A processor's registers when the signal came.
struct Machine {
    stack: usize,
    code: usize,
}

#[cfg(target_arch = "x86_64")]
impl Machine {
    unsafe fn of(context: *const libc::ucontext_t) -> Machine {
        // SAFETY: as the caller promises.
        let registers = unsafe { &(*context).uc_mcontext.gregs };
        Machine {
            stack: registers[libc::REG_RSP as usize] as usize,
            code: registers[libc::REG_RIP as usize] as usize,
        }
    }

    unsafe fn jump(context: *mut libc::ucontext_t, to: corosensei::trap::TrapHandlerRegs) {
        // SAFETY: as the caller promises.
        let registers = unsafe { &mut (*context).uc_mcontext.gregs };
        registers[libc::REG_RIP as usize] = to.rip as i64;
        registers[libc::REG_RSP as usize] = to.rsp as i64;
        registers[libc::REG_RBP as usize] = to.rbp as i64;
        registers[libc::REG_RDI as usize] = to.rdi as i64;
        registers[libc::REG_RSI as usize] = to.rsi as i64;
    }
}

#[cfg(target_arch = "aarch64")]
impl Machine {
    unsafe fn of(context: *const libc::ucontext_t) -> Machine {
        // SAFETY: as the caller promises.
        let machine = unsafe { &(*context).uc_mcontext };
        Machine {
            stack: machine.sp as usize,
            code: machine.pc as usize,
        }
    }

    unsafe fn jump(context: *mut libc::ucontext_t, to: corosensei::trap::TrapHandlerRegs) {
        // SAFETY: as the caller promises.
        let machine = unsafe { &mut (*context).uc_mcontext };
        machine.pc = to.pc;
        machine.sp = to.sp;
        machine.regs[0] = to.x0;
        machine.regs[1] = to.x1;
        machine.regs[29] = to.x29;
        machine.regs[30] = to.lr;
    }
}
