@group(0) @binding(5) var<storage, read_write> v21: array<f32>;
@group(0) @binding(4) var<storage, read_write> v17: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_sigmoid_bias_groups(@builtin(workgroup_id) v910: vec3<u32>, @builtin(num_workgroups) v912: vec3<u32>, @builtin(local_invocation_index) v919: u32) {
let v949 = &v21;
let v950 = &v17;
let v951 = &v13;
let v952 = &v9;
let v953 = &v5;
let v954 = &v1;
let v3 = u32(0);
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v27 = info_var.scalars_usize[2];
let v28 = info_var.scalars_f32[0];
let v911 = v910[2];
let v819 = u32(v911);
let v913 = v912[1];
let v821 = u32(v913);
let v822 = v819 * v821;
let v914 = v912[0];
let v824 = u32(v914);
let v825 = v822 * v824;
let v915 = v910[1];
let v827 = u32(v915);
let v830 = v827 * v824;
let v831 = v825 + v830;
let v917 = v910[0];
let v833 = u32(v917);
let v834 = v831 + v833;
let v945 = u32(64);
let v837 = v834 * v945;
let v920 = v919;
let v839 = u32(v920);
let v840 = v837 + v839;
let v30 = v840 < v25;
if v30 {
let v32 = v840 * v26;
let v34 = v840 * v27;
let v35 = f32(0.0);
let v36 = vec4<f32>(v35);
let v37 = f32(-3.4028234663852886e38);
let v38 = vec4<f32>(v37);
var<function> v642_store: vec4<f32>;
let v642 = &v642_store;
*v642 = v38;
let v41 = u32(1);
for(var v42: u32 = v3; v42 < v26; v42 += v41) {
let v44 = v32 + v42;
let v48 = &(*v954)[v44];
let v49 = *v48;
let v50 = *v642;
let v51 = max(v50, v49);
*v642 = v51;

}
let v52 = *v642;
let v53 = v52[0];
var<function> v644_store: f32;
let v644 = &v644_store;
*v644 = v53;
let v55 = *v642;
let v56 = v55[1];
let v57 = *v644;
let v58 = max(v57, v56);
*v644 = v58;
let v59 = *v642;
let v60 = v59[2];
let v61 = *v644;
let v62 = max(v61, v60);
*v644 = v62;
let v63 = *v642;
let v64 = v63[3];
let v65 = *v644;
let v66 = max(v65, v64);
*v644 = v66;
var<function> v645_store: vec4<f32>;
let v645 = &v645_store;
*v645 = v36;
for(var v70: u32 = v3; v70 < v26; v70 += v41) {
let v72 = v32 + v70;
let v76 = &(*v954)[v72];
let v77 = *v76;
let v78 = *v644;
let v79 = vec4<f32>(v78);
let v80 = v77 - v79;
let v81 = bitcast<vec4<u32>>(v80);
let v82 = u32(2147483647);
let v83 = vec4<u32>(v82);
let v84 = v81 & v83;
let v85 = u32(2139095040);
let v86 = vec4<u32>(v85);
let v87 = v84 > v86;
let v88 = exp(v80);
let v89 = select(v88, v80, v87);
let v90 = *v645;
let v91 = v90 + v89;
*v645 = v91;
let v92 = f32(1.0);
let v93 = vec4<f32>(v92);
let v94 = abs(v77);
let v95 = -v94;
let v96 = bitcast<vec4<u32>>(v95);
let v99 = v96 & v83;
let v102 = v99 > v86;
let v103 = exp(v95);
let v104 = select(v103, v95, v102);
let v107 = v77 < v36;
let v108 = select(v93, v104, v107);
let v109 = v93 + v104;
let v110 = v108 / v109;
let v115 = &(*v950)[v72];
*v115 = v110;

}
let v116 = *v645;
var<function> v799_store: f32;
let v799 = &v799_store;
*v799 = v35;
let v650 = v116[0];
let v651 = *v799;
let v652 = v651 + v650;
*v799 = v652;
let v653 = v116[1];
let v654 = *v799;
let v655 = v654 + v653;
*v799 = v655;
let v656 = v116[2];
let v657 = *v799;
let v658 = v657 + v656;
*v799 = v658;
let v659 = v116[3];
let v660 = *v799;
let v661 = v660 + v659;
*v799 = v661;
let v662 = *v799;
let v118 = bitcast<u32>(v662);
let v119 = u32(2147483647);
let v120 = v118 & v119;
let v121 = u32(2139095040);
let v122 = v120 > v121;
let v123 = log(v662);
let v124 = *v644;
let v125 = v124 + v123;
let v126 = bitcast<u32>(v125);
let v127 = select(v126, v118, v122);
let v128 = u32(0);
let v129 = v118 == v128;
let v130 = u32(4286578688);
let v131 = select(v127, v130, v129);
let v132 = bitcast<f32>(v131);
let v137 = &(*v949)[v840];
*v137 = v132;
let v138 = u32(8);
let v139 = v26 / v138;
var<function> v663_store: array<u32, 8>= array<u32, 8>();
let v663 = &v663_store;
for(var v147: u32 = v3; v147 < v138; v147 += v41) {
let v150 = vec4<u32>(v128);
var<function> v665_store: vec4<u32>;
let v665 = &v665_store;
*v665 = v150;
var<function> v666_store: vec4<u32>;
let v666 = &v666_store;
*v666 = v150;
let v155 = v147 * v139;
let v157 = v147 + v41;
let v158 = v157 * v139;
for(var v160: u32 = v155; v160 < v158; v160 += v41) {
let v162 = v32 + v160;
let v166 = &(*v950)[v162];
let v167 = *v166;
let v171 = &(*v953)[v160];
let v172 = *v171;
let v173 = v167 + v172;
let v174 = u32(2147483648);
let v175 = vec4<u32>(v174);
let v176 = bitcast<vec4<u32>>(v173);
let v177 = v176 == v175;
let v180 = select(v176, v150, v177);
let v181 = v180 < v175;
let v182 = v180 | v175;
let v183 = ~v180;
let v184 = select(v183, v182, v181);
let v187 = vec4<u32>(v119);
let v188 = v176 & v187;
let v190 = vec4<u32>(v121);
let v191 = v188 > v190;
let v194 = select(v184, v150, v191);
let v195 = u32(1);
let v196 = vec4<u32>(v195);
let v197 = v194 + v196;
let v200 = *v665;
let v201 = min(v200, v197);
let v202 = *v666;
let v203 = max(v202, v201);
*v666 = v203;
let v204 = *v665;
let v205 = max(v204, v197);
*v665 = v205;

}
let v206 = *v665;
let v207 = v206[0];
var<function> v668_store: u32;
let v668 = &v668_store;
*v668 = v207;
let v209 = *v666;
let v210 = v209[0];
var<function> v669_store: u32;
let v669 = &v669_store;
*v669 = v210;
let v212 = *v665;
let v213 = v212[1];
let v214 = *v666;
let v215 = v214[1];
let v216 = *v669;
let v217 = max(v216, v215);
let v218 = *v668;
let v219 = min(v218, v213);
let v220 = max(v217, v219);
*v669 = v220;
let v221 = *v668;
let v222 = max(v221, v213);
*v668 = v222;
let v223 = *v665;
let v224 = v223[2];
let v225 = *v666;
let v226 = v225[2];
let v227 = *v669;
let v228 = max(v227, v226);
let v229 = *v668;
let v230 = min(v229, v224);
let v231 = max(v228, v230);
*v669 = v231;
let v232 = *v668;
let v233 = max(v232, v224);
*v668 = v233;
let v234 = *v665;
let v235 = v234[3];
let v236 = *v666;
let v237 = v236[3];
let v238 = *v669;
let v239 = max(v238, v237);
let v240 = *v668;
let v241 = min(v240, v235);
let v242 = max(v239, v241);
*v669 = v242;
let v243 = *v668;
let v244 = max(v243, v235);
*v668 = v244;
var<function> v670_store: u32;
let v670 = &v670_store;
*v670 = v128;
let v248 = *v668;
let v250 = v248 > v128;
if v250 {
let v252 = u32(1);
let v253 = v248 - v252;
let v254 = u32(2147483648);
let v255 = v253 < v254;
let v256 = ~v253;
let v258 = v253 & v119;
let v259 = select(v258, v256, v255);
let v260 = bitcast<f32>(v259);
var<function> v671_store: f32;
let v671 = &v671_store;
*v671 = v260;
let v262 = *v669;
let v264 = v262 > v128;
if v264 {
let v267 = v262 - v252;
let v269 = v267 < v254;
let v270 = ~v267;
let v272 = v267 & v119;
let v273 = select(v272, v270, v269);
let v274 = bitcast<f32>(v273);
let v275 = *v671;
let v276 = v275 + v274;
*v671 = v276;

}
let v277 = *v671;
let v279 = bitcast<u32>(v277);
let v280 = v279 == v254;
let v282 = select(v279, v128, v280);
let v283 = v282 < v254;
let v284 = v282 | v254;
let v285 = ~v282;
let v286 = select(v285, v284, v283);
let v289 = v279 & v119;
let v291 = v289 > v121;
let v293 = select(v286, v128, v291);
let v295 = v293 + v252;
*v670 = v295;

}
let v299 = &(*v663)[v147];
let v300 = *v670;
*v299 = v300;

}
let v302 = u32(4);
for(var v304: u32 = v3; v304 < v302; v304 += v41) {
var<function> v673_store: u32;
let v673 = &v673_store;
*v673 = v3;
var<function> v674_store: u32;
let v674 = &v674_store;
*v674 = v128;
for(var v315: u32 = v3; v315 < v138; v315 += v41) {
let v320 = &(*v663)[v315];
let v321 = *v320;
let v322 = *v674;
let v323 = v321 > v322;
var<function> v676_store: bool;
let v676 = &v676_store;
if v323 {
let v324 = u32(4294967295);
let v325 = v321 != v324;
*v676 = v325;

} else {
let v327 = false;
*v676 = v327;

}
let v328 = *v676;
if v328 {
*v674 = v321;
*v673 = v315;

}

}
let v329 = *v674;
let v331 = v329 > v128;
if v331 {
let v334 = *v673;
let v336 = &(*v663)[v334];
let v337 = u32(4294967295);
*v336 = v337;

}

}
let v338 = u32(4294967295);
var<function> v677_store: u32;
let v677 = &v677_store;
*v677 = v338;
var<function> v678_store: u32;
let v678 = &v678_store;
*v678 = v128;
for(var v346: u32 = v3; v346 < v27; v346 += v41) {
let v349 = vec4<u32>(v128);
var<function> v680_store: vec4<u32>;
let v680 = &v680_store;
*v680 = v349;
var<function> v681_store: vec4<u32>;
let v681 = &v681_store;
*v681 = v349;
for(var v359: u32 = v3; v359 < v138; v359 += v41) {
let v364 = &(*v663)[v359];
let v365 = *v364;
let v367 = v365 == v338;
if v367 {
let v368 = v359 * v139;
let v370 = v359 + v41;
let v371 = v370 * v139;
var<function> v683_store: vec4<u32>;
let v683 = &v683_store;
*v683 = v349;
var<function> v684_store: vec4<u32>;
let v684 = &v684_store;
let v376 = *v683;
*v684 = v376;
let v377 = *v684;
let v379 = vec4<u32>(v128, v377[1], v377[2], v377[3]);
*v684 = v379;
let v380 = *v684;
let v381 = u32(1);
let v382 = vec4<u32>(v380[0], v381, v380[2], v380[3]);
*v684 = v382;
let v383 = *v684;
let v384 = u32(2);
let v385 = vec4<u32>(v383[0], v383[1], v384, v383[3]);
*v684 = v385;
let v386 = *v684;
let v387 = u32(3);
let v388 = vec4<u32>(v386[0], v386[1], v386[2], v387);
*v684 = v388;
let v389 = *v677;
let v390 = vec4<u32>(v389);
let v391 = *v678;
let v392 = vec4<u32>(v391);
for(var v394: u32 = v368; v394 < v371; v394 += v41) {
let v397 = v394 * v302;
let v398 = u32(v397);
let v399 = vec4<u32>(v398);
let v400 = *v684;
let v401 = v400 + v399;
let v402 = v32 + v394;
let v406 = &(*v950)[v402];
let v407 = *v406;
let v411 = &(*v953)[v394];
let v412 = *v411;
let v413 = v407 + v412;
let v414 = u32(2147483648);
let v415 = vec4<u32>(v414);
let v416 = bitcast<vec4<u32>>(v413);
let v417 = v416 == v415;
let v420 = select(v416, v349, v417);
let v421 = v420 < v415;
let v422 = v420 | v415;
let v423 = ~v420;
let v424 = select(v423, v422, v421);
let v427 = vec4<u32>(v119);
let v428 = v416 & v427;
let v430 = vec4<u32>(v121);
let v431 = v428 > v430;
let v434 = select(v424, v349, v431);
let v436 = vec4<u32>(v381);
let v437 = v434 + v436;
let v440 = v401 > v392;
let v441 = v437 == v390;
let v686 = false;
let v687 = vec4<bool>(v686);
var<function> v800_store: vec4<bool>;
let v800 = &v800_store;
*v800 = v687;
var<function> v801_store: vec4<bool>;
let v801 = &v801_store;
let v690 = *v800;
*v801 = v690;
let v691 = v441[0];
var<function> v802_store: bool;
let v802 = &v802_store;
if v691 {
let v692 = v440[0];
*v802 = v692;

} else {
*v802 = v686;

}
let v695 = *v801;
let v696 = *v802;
let v697 = vec4<bool>(v696, v695[1], v695[2], v695[3]);
*v801 = v697;
let v698 = v441[1];
var<function> v803_store: bool;
let v803 = &v803_store;
if v698 {
let v699 = v440[1];
*v803 = v699;

} else {
*v803 = v686;

}
let v702 = *v801;
let v703 = *v803;
let v704 = vec4<bool>(v702[0], v703, v702[2], v702[3]);
*v801 = v704;
let v705 = v441[2];
var<function> v804_store: bool;
let v804 = &v804_store;
if v705 {
let v706 = v440[2];
*v804 = v706;

} else {
*v804 = v686;

}
let v709 = *v801;
let v710 = *v804;
let v711 = vec4<bool>(v709[0], v709[1], v710, v709[3]);
*v801 = v711;
let v712 = v441[3];
var<function> v805_store: bool;
let v805 = &v805_store;
if v712 {
let v713 = v440[3];
*v805 = v713;

} else {
*v805 = v686;

}
let v716 = *v801;
let v717 = *v805;
let v718 = vec4<bool>(v716[0], v716[1], v716[2], v717);
*v801 = v718;
let v719 = *v801;
let v443 = v437 < v390;
var<function> v806_store: vec4<bool>;
let v806 = &v806_store;
*v806 = v687;
var<function> v807_store: vec4<bool>;
let v807 = &v807_store;
let v724 = *v806;
*v807 = v724;
let v725 = v443[0];
let v726 = true;
var<function> v808_store: bool;
let v808 = &v808_store;
if v725 {
*v808 = v726;

} else {
let v729 = v719[0];
*v808 = v729;

}
let v730 = *v807;
let v731 = *v808;
let v732 = vec4<bool>(v731, v730[1], v730[2], v730[3]);
*v807 = v732;
let v733 = v443[1];
var<function> v809_store: bool;
let v809 = &v809_store;
if v733 {
*v809 = v726;

} else {
let v737 = v719[1];
*v809 = v737;

}
let v738 = *v807;
let v739 = *v809;
let v740 = vec4<bool>(v738[0], v739, v738[2], v738[3]);
*v807 = v740;
let v741 = v443[2];
var<function> v810_store: bool;
let v810 = &v810_store;
if v741 {
*v810 = v726;

} else {
let v745 = v719[2];
*v810 = v745;

}
let v746 = *v807;
let v747 = *v810;
let v748 = vec4<bool>(v746[0], v746[1], v747, v746[3]);
*v807 = v748;
let v749 = v443[3];
var<function> v811_store: bool;
let v811 = &v811_store;
if v749 {
*v811 = v726;

} else {
let v753 = v719[3];
*v811 = v753;

}
let v754 = *v807;
let v755 = *v811;
let v756 = vec4<bool>(v754[0], v754[1], v754[2], v755);
*v807 = v756;
let v757 = *v807;
let v445 = *v680;
let v446 = v437 > v445;
var<function> v812_store: vec4<bool>;
let v812 = &v812_store;
*v812 = v687;
var<function> v813_store: vec4<bool>;
let v813 = &v813_store;
let v762 = *v812;
*v813 = v762;
let v763 = v446[0];
var<function> v814_store: bool;
let v814 = &v814_store;
if v763 {
let v764 = v757[0];
*v814 = v764;

} else {
*v814 = v686;

}
let v767 = *v813;
let v768 = *v814;
let v769 = vec4<bool>(v768, v767[1], v767[2], v767[3]);
*v813 = v769;
let v770 = v446[1];
var<function> v815_store: bool;
let v815 = &v815_store;
if v770 {
let v771 = v757[1];
*v815 = v771;

} else {
*v815 = v686;

}
let v774 = *v813;
let v775 = *v815;
let v776 = vec4<bool>(v774[0], v775, v774[2], v774[3]);
*v813 = v776;
let v777 = v446[2];
var<function> v816_store: bool;
let v816 = &v816_store;
if v777 {
let v778 = v757[2];
*v816 = v778;

} else {
*v816 = v686;

}
let v781 = *v813;
let v782 = *v816;
let v783 = vec4<bool>(v781[0], v781[1], v782, v781[3]);
*v813 = v783;
let v784 = v446[3];
var<function> v817_store: bool;
let v817 = &v817_store;
if v784 {
let v785 = v757[3];
*v817 = v785;

} else {
*v817 = v686;

}
let v788 = *v813;
let v789 = *v817;
let v790 = vec4<bool>(v788[0], v788[1], v788[2], v789);
*v813 = v790;
let v791 = *v813;
let v448 = *v680;
let v449 = select(v448, v437, v791);
*v680 = v449;
let v450 = *v681;
let v451 = select(v450, v401, v791);
*v681 = v451;

}

}

}
let v452 = *v680;
let v453 = v452[0];
var<function> v792_store: u32;
let v792 = &v792_store;
*v792 = v453;
let v455 = *v681;
let v456 = v455[0];
var<function> v793_store: u32;
let v793 = &v793_store;
*v793 = v456;
let v458 = *v680;
let v459 = v458[1];
let v460 = *v681;
let v461 = v460[1];
let v462 = *v792;
let v463 = v459 > v462;
let v465 = v459 == v462;
let v466 = *v793;
let v467 = v461 < v466;
let v468 = v465 && v467;
let v469 = v463 || v468;
let v471 = select(v462, v459, v469);
*v792 = v471;
let v472 = *v793;
let v473 = select(v472, v461, v469);
*v793 = v473;
let v474 = *v680;
let v475 = v474[2];
let v476 = *v681;
let v477 = v476[2];
let v478 = *v792;
let v479 = v475 > v478;
let v481 = v475 == v478;
let v482 = *v793;
let v483 = v477 < v482;
let v484 = v481 && v483;
let v485 = v479 || v484;
let v487 = select(v478, v475, v485);
*v792 = v487;
let v488 = *v793;
let v489 = select(v488, v477, v485);
*v793 = v489;
let v490 = *v680;
let v491 = v490[3];
let v492 = *v681;
let v493 = v492[3];
let v494 = *v792;
let v495 = v491 > v494;
let v497 = v491 == v494;
let v498 = *v793;
let v499 = v493 < v498;
let v500 = v497 && v499;
let v501 = v495 || v500;
let v503 = select(v494, v491, v501);
*v792 = v503;
let v504 = *v793;
let v505 = select(v504, v493, v501);
*v793 = v505;
let v506 = *v792;
let v508 = v506 > v128;
if v508 {
*v677 = v506;
let v510 = *v793;
*v678 = v510;
let v511 = *v793;
let v512 = u32(v511);
let v514 = v512 / v302;
let v515 = v32 + v514;
let v519 = v512 % v302;
let v520 = v34 + v346;
let v524 = &(*v952)[v520];
*v524 = v511;
let v529 = &(*v954)[v515];
let v530 = *v529;
let v531 = v530[v519];
let v533 = min(v531, v35);
let v534 = abs(v531);
let v535 = -v534;
let v536 = exp(v535);
let v537 = f32(1.0);
let v538 = v537 + v536;
let v539 = log(v538);
let v540 = v533 - v539;
let v545 = &(*v951)[v520];
*v545 = v540;

} else {
let v547 = v26 * v302;
let v548 = u32(v547);
let v549 = v34 + v346;
let v553 = &(*v952)[v549];
*v553 = v548;
let v558 = &(*v951)[v549];
*v558 = v35;

}

}
let v561 = v26 * v302;
let v562 = u32(v561);
let v563 = v34 + v27;
let v567 = &(*v951)[v34];
let v568 = *v567;
var<function> v794_store: f32;
let v794 = &v794_store;
*v794 = v568;
let v571 = v34 + v41;
for(var v573: u32 = v571; v573 < v563; v573 += v41) {
let v578 = &(*v952)[v573];
let v579 = *v578;
let v580 = v579 < v562;
if v580 {
let v584 = &(*v951)[v573];
let v585 = *v584;
let v586 = *v794;
let v587 = max(v586, v585);
*v794 = v587;

}

}
var<function> v796_store: f32;
let v796 = &v796_store;
*v796 = v35;
for(var v592: u32 = v34; v592 < v563; v592 += v41) {
let v597 = &(*v952)[v592];
let v598 = *v597;
let v599 = v598 < v562;
if v599 {
let v603 = &(*v951)[v592];
let v604 = *v603;
let v605 = *v794;
let v606 = v604 - v605;
let v607 = exp(v606);
*v603 = v607;
let v612 = *v796;
let v613 = v612 + v607;
*v796 = v613;

}

}
for(var v615: u32 = v34; v615 < v563; v615 += v41) {
let v620 = &(*v952)[v615];
let v621 = *v620;
let v622 = v621 < v562;
if v622 {
let v626 = &(*v951)[v615];
let v627 = *v626;
let v628 = *v796;
let v629 = v627 / v628;
let v630 = v28 * v629;
*v626 = v630;

}

}

}
return;

}
