// SPDX-License-Identifier: GPL-2.0

use crate::engine::call_sites::{call_target, enters, has_call, has_jump, is_location, CodeRole};

const TEXT: u64 = 0xffff_ffff_8100_0000;

#[test]
fn direct_calls() {
    let bytes = |offset: i32| {
        let [a, b, c, d] = offset.to_le_bytes();
        [0xe8, a, b, c, d]
    };
    assert_eq!(call_target(bytes(0x100), TEXT), Some(TEXT + 0x100));
    assert_eq!(call_target(bytes(-0x100), TEXT), Some(TEXT - 0x100));
    // Indirect ones, and other bytes that may lie before a return address.
    assert_eq!(call_target([0x90, 0x90, 0x90, 0xff, 0xd0], TEXT), None);
    assert_eq!(call_target([0x2e, 0x2e, 0x2e, 0xff, 0xd0], TEXT), None);
    assert_eq!(call_target([0; 5], TEXT), None);
}

#[test]
fn calls_anywhere() {
    let code = [0x53, 0xe8, 0xfa, 0x0f, 0, 0, 0xc3];
    assert!(has_call(&code, TEXT, TEXT + 0x1000) && !has_call(&code, TEXT + 1, TEXT + 0x1000));
    assert!(!has_call(&code, TEXT, TEXT + 0x1040) && !has_call(&code[..5], TEXT, TEXT + 0x1000));
    assert!(!has_jump(&code, TEXT, TEXT + 0x1000));
}

#[test]
fn where_functions_begin() {
    assert!(is_location(TEXT, TEXT) && is_location(TEXT + 4, TEXT));
    assert!(!is_location(TEXT + 5, TEXT) && !is_location(TEXT - 1, TEXT));
    // Nothing is known.
    assert!(!is_location(4, 0));
    // To the function, or to the bytes before it.
    assert!(enters(TEXT, TEXT) && enters(TEXT, TEXT + 4) && enters(TEXT - 16, TEXT + 4));
    assert!(!enters(TEXT + 1, TEXT) && !enters(TEXT, TEXT + 32));
}

#[test]
fn jumps_anywhere() {
    // push rbx; jne +0x20 (short); jmp target
    let mut code = [0x53, 0x75, 0x20, 0xe9, 0, 0, 0, 0, 0xcc];
    let to = TEXT + 0x1000;
    code[4..8].copy_from_slice(&(0x1000i32 - 8).to_le_bytes());
    assert!(has_jump(&code, TEXT, to) && has_jump(&code, TEXT, to + 4));
    assert!(!has_jump(&code, TEXT + 1, to) && !has_jump(&code, TEXT, to + 0x40));
    // The last byte is not there.
    assert!(!has_jump(&code[..7], TEXT, to));
    // je target
    let mut code = [0x0f, 0x84, 0, 0, 0, 0];
    code[2..].copy_from_slice(&(-0x1000i32 - 6).to_le_bytes());
    assert!(has_jump(&code, TEXT, TEXT - 0x1000));
    // A call is not a jump.
    code[..2].copy_from_slice(&[0x90, 0xe8]);
    assert!(!has_jump(&code, TEXT, TEXT - 0x1000));
    assert!(!has_jump(&[], TEXT, TEXT));
}

#[test]
fn roles() {
    assert_eq!(CodeRole::of(b"do_syscall_64"), CodeRole::TaskEntry);
    assert_eq!(
        CodeRole::of(b"sysvec_apic_timer_interrupt"),
        CodeRole::InterruptEntry
    );
    assert_eq!(CodeRole::of(b"irq_exit_rcu"), CodeRole::InterruptEdge);
    assert_eq!(
        CodeRole::of(b"__sysvec_apic_timer_interrupt"),
        CodeRole::Plain
    );
    assert_eq!(CodeRole::of(b""), CodeRole::Plain);
}
