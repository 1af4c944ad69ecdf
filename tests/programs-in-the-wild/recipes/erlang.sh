# package: erlang-base
# needs: erl
# version: erl -noshell -eval 'io:format("~s", [erlang:system_info(otp_release)]), halt().'
# does: 20,000 processes send round a ring, 2 schedulers
run() { $RUN erl +S 2 -noshell -eval 'L = fun L(N) -> receive {X, []} -> X ! N; {X, [H | T]} -> H ! {X, T}, L(N + 1); stop -> ok end end, Ps = [spawn(fun() -> L(0) end) || _ <- lists:seq(1, 20000)], [hd(Ps) ! {self(), tl(Ps)} || _ <- [1]], R = receive V -> V after 20000 -> timeout end, io:format("~p ~p~n", [R, lists:sum([X * X rem 7 || X <- lists:seq(1, 300000)])]), halt().'; }
