var<workgroup> shared_v173: array<f32, 64>;
@group(0) @binding(6) var<storage, read_write> v25: array<f32>;
@group(0) @binding(5) var<storage, read_write> v21: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read_write> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 8> }
@group(0) @binding(7) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_backward_f32_mish(@builtin(local_invocation_index) v360: u32, @builtin(workgroup_id) v362: vec3<u32>, @builtin(num_workgroups) v364: vec3<u32>) {
let v385 = &v25;
let v386 = &v21;
let v387 = &v17;
let v388 = &v13;
let v389 = &v9;
let v390 = &v5;
let v391 = &v1;
let v3 = u32(0);
let v29 = info_var.scalars_usize[0];
let v30 = info_var.scalars_usize[1];
let v31 = info_var.scalars_usize[2];
let v32 = info_var.scalars_usize[3];
let v363 = v362[2];
let v315 = u32(v363);
let v365 = v364[1];
let v317 = u32(v365);
let v318 = v315 * v317;
let v366 = v364[0];
let v320 = u32(v366);
let v321 = v318 * v320;
let v367 = v362[1];
let v323 = u32(v367);
let v326 = v323 * v320;
let v327 = v321 + v326;
let v369 = v362[0];
let v329 = u32(v369);
let v330 = v327 + v329;
let v382 = u32(64);
let v333 = v330 * v382;
let v371 = v360;
let v335 = u32(v371);
let v336 = v333 + v335;
let v35 = v336 / v382;
let v38 = v336 % v382;
let v39 = u32(1);
let v40 = v30 - v39;
let v41 = min(v35, v40);
let v45 = &(*v389)[v41];
let v46 = *v45;
let v47 = u32(v46);
let v48 = v35 * v32;
let v51 = f32(0.0);
let v52 = vec4<f32>(v51);
var<function> v293_store: vec4<f32>;
let v293 = &v293_store;
*v293 = v52;
let v57 = &(*v388)[v29];
let v58 = *v57;
let v59 = u32(v58);
let v60 = v35 < v59;
if v60 {
let v64 = &(*v387)[v47];
let v65 = *v64;
let v66 = vec4<f32>(v65);
for(var v68: u32 = v38; v68 < v32; v68 += v382) {
let v71 = v48 + v68;
let v75 = &(*v390)[v71];
let v76 = *v75;
let v78 = v66 * v76;
let v82 = &(*v391)[v71];
let v83 = *v82;
let v86 = f32(1.0);
let v87 = vec4<f32>(v86);
let v88 = f32(20.0);
let v89 = vec4<f32>(v88);
let v90 = v83 < v89;
let v91 = select(v89, v83, v90);
let v92 = exp(v91);
let v93 = f32(2.0);
let v94 = vec4<f32>(v93);
let v95 = v92 + v94;
let v96 = v92 * v95;
let v97 = v83 * v96;
let v100 = v96 + v94;
let v101 = v97 / v100;
let v119 = v89 < v83;
let v120 = select(v83, v89, v119);
let v121 = f32(4.0);
let v122 = vec4<f32>(v121);
let v126 = v122 * v92;
let v127 = v87 + v92;
let v128 = v126 * v127;
let v129 = v128 / v100;
let v384 = fma(v120, v129, v96);
let v132 = v384 / v100;
let v133 = v78 * v132;
let v137 = &(*v386)[v71];
*v137 = v133;
let v138 = v66 * v101;
*v75 = v138;
let v145 = *v293;
let v146 = fma(v76, v101, v145);
*v293 = v146;

}

} else {
let v147 = v35 < v31;
if v147 {
for(var v149: u32 = v38; v149 < v32; v149 += v382) {
let v154 = v48 + v149;
let v158 = &(*v390)[v154];
*v158 = v52;
let v168 = &(*v386)[v154];
*v168 = v52;

}

}

}
let v169 = *v293;
var<function> v313_store: f32;
let v313 = &v313_store;
*v313 = v51;
let v299 = v169[0];
let v300 = *v313;
let v301 = v300 + v299;
*v313 = v301;
let v302 = v169[1];
let v303 = *v313;
let v304 = v303 + v302;
*v313 = v304;
let v305 = v169[2];
let v306 = *v313;
let v307 = v306 + v305;
*v313 = v307;
let v308 = v169[3];
let v309 = *v313;
let v310 = v309 + v308;
*v313 = v310;
let v311 = *v313;
let v312 = &shared_v173;
let v180 = &(*v312)[v335];
*v180 = v311;
workgroupBarrier();
let v181 = u32(32);
let v182 = v335 < v181;
if v182 {
let v184 = v335 + v181;
let v188 = &(*v312)[v184];
let v189 = *v188;
let v194 = *v180;
let v195 = v194 + v189;
*v180 = v195;

}
workgroupBarrier();
let v196 = u32(16);
let v197 = v335 < v196;
if v197 {
let v199 = v335 + v196;
let v203 = &(*v312)[v199];
let v204 = *v203;
let v209 = *v180;
let v210 = v209 + v204;
*v180 = v210;

}
workgroupBarrier();
let v211 = u32(8);
let v212 = v335 < v211;
if v212 {
let v214 = v335 + v211;
let v218 = &(*v312)[v214];
let v219 = *v218;
let v224 = *v180;
let v225 = v224 + v219;
*v180 = v225;

}
workgroupBarrier();
let v226 = u32(4);
let v227 = v335 < v226;
if v227 {
let v229 = v335 + v226;
let v233 = &(*v312)[v229];
let v234 = *v233;
let v239 = *v180;
let v240 = v239 + v234;
*v180 = v240;

}
workgroupBarrier();
let v241 = u32(2);
let v242 = v335 < v241;
if v242 {
let v244 = v335 + v241;
let v248 = &(*v312)[v244];
let v249 = *v248;
let v254 = *v180;
let v255 = v254 + v249;
*v180 = v255;

}
workgroupBarrier();
let v257 = v335 < v39;
if v257 {
let v259 = v335 + v39;
let v263 = &(*v312)[v259];
let v264 = *v263;
let v269 = *v180;
let v270 = v269 + v264;
*v180 = v270;

}
workgroupBarrier();
let v275 = &(*v312)[v3];
let v276 = *v275;
let v278 = v38 == v3;
let v279 = v35 < v30;
let v280 = v278 && v279;
if v280 {
let v284 = &(*v385)[v47];
*v284 = v276;

}
return;

}
