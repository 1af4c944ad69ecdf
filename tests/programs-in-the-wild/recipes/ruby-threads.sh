# package: ruby
# needs: ruby
# version: ruby --version
# does: 16 threads, a queue, mutexes and ractors
run() { $RUN ruby -W0 -e 'q = Queue.new; 20000.times { |n| q << n }; q.close; m = Mutex.new; sum = 0
16.times.map { Thread.new { while (n = q.pop); m.synchronize { sum += n * n % 1009 } end } }.each(&:join)
puts sum, 4.times.map { |k| Ractor.new(k) { |k| (1..300000).sum { |x| x * k % 7 } } }.map(&:take).inspect'; }
